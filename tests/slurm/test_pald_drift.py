"""A GPU that gets slower while a job runs on it: the job that may be moved is moved off it, on a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.model import Ending
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_moves import MOVES, counting, dead_times, logs, moves, steps


def place(cluster: Minicluster, job: int) -> str:
    ((node, slot),) = cluster.gpu_indices(job).items()
    return f"{node}:{slot}"


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_job_that_may_be_moved_leaves_a_gpu_that_drifts_and_does_not_come_back(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    """From 1.0 to 1.5, and back, as a GPU that is throttled for a while; the job beside it that said nothing stays."""
    with Pald(minicluster, tmp_path, MOVES) as pald, minicluster.leases():
        assert pald.once() == 0
        pald.scores({})
        pald.start()
        logged = {name: logs(minicluster, f"steps-drift-{name}") for name in ("moves", "stays")}
        comments = {"moves": "app:resnet pal:move", "stays": "app:resnet"}
        jobs = {
            name: counting(minicluster, log, f"--comment={comments[name]}", "--gres=gpu:1", "-t", "60")
            for name, log in logged.items()
        }
        for job in jobs.values():
            minicluster.wait_state(job, "RUNNING")
        wait_for(lambda: all(len(steps(log)) > 10 for log in logged.values()), "both count")
        were = {name: place(minicluster, job) for name, job in jobs.items()}
        pald.wait_cycle()
        assert moves(pald, jobs["moves"]) == []
        pald.scores(dict.fromkeys(were.values(), 1.5))
        wait_for(lambda: any(move.ending for move in moves(pald, jobs["moves"])), "it was moved", 60)
        (move,) = moves(pald, jobs["moves"])
        assert move.ending is Ending.MOVED
        assert place(minicluster, jobs["moves"]) not in were.values()
        wait_for(lambda: len(dead_times(logged["moves"])) == 1, "it counts again")
        counted = [number for number, _, _ in steps(logged["moves"])]
        assert counted == list(range(1, len(counted) + 1)), "it resumed at the saved step"
        pald.scores({})
        pald.wait_cycle()
        assert len(moves(pald, jobs["moves"])) == 1 and moves(pald, jobs["stays"]) == []
        assert place(minicluster, jobs["stays"]) == were["stays"]
