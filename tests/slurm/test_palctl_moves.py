"""palctl moves on a real Slurm: what would be moved in shadow mode; a job under pal-run that is moved, its story."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.slurm.history import jobs_ran
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pal_run import line
from tests.slurm.test_pald_moves import MOVES
from tests.slurm.test_palwork import wait_for_step
from tests.slurm.worklog import WorkLog


def beside_the_good_gpus(minicluster: Minicluster, pald: Pald, words: str, log: WorkLog) -> tuple[int, int]:
    """A job that may be moved, on slow GPUs; another holds the good ones. In: its command, and the log of its steps."""
    assert pald.once() == 0
    pald.scores({f"n5:{slot}": 1.0 for slot in (1, 3)}, others=1.6)
    jobs_ran(pald, 3500, "resnet", limit_s=3600)
    pald.start()
    first = minicluster.submit("--gres=gpu:4", "--comment=app:resnet", "-w", "n5")
    minicluster.wait_state(first, "RUNNING")
    ask = ("--comment=app:resnet pal:move=USR1@30", "--requeue", "--gres=gpu:2", "-t", "60")
    job = minicluster.submit(*ask, wrap=f"srun {words}")
    wait_for_step(log, 5)
    return first, job


@pytest.mark.slurm("26.05")
def test_what_would_be_moved_is_told_in_shadow_mode_and_stays_where_it_is(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    words, log = line(tmp_path)
    words = words.replace("--steps 150", "--steps 100000")
    with Pald(minicluster, tmp_path / "pald", {**MOVES, "actuator": "shadow"}) as pald:
        first, job = beside_the_good_gpus(minicluster, pald, words, log)
        (row,) = (row for row in json.loads(pald.palctl("moves", "--what-if", "--json")) if row["job"] == job)
        assert (row["action"], row["why"]) == ("stays", "no other GPUs are worth its move")
        minicluster.client("scancel", str(first))
        minicluster.wait_state(first, "CANCELLED")
        wait_for(lambda: minicluster.node_state("n5") == "idle", "n5 is free")
        (row,) = json.loads(pald.palctl("moves", "--what-if", "--json"))
        assert (row["job"], row["action"], row["to"]) == (job, "move", "n5:g1,g3")
        assert row["gain_s"] > row["cost_s"] > 0
        assert "Nothing is moved: actuator is shadow" in pald.palctl("moves", "--what-if")
        assert json.loads(pald.palctl("moves", "--json")) == []
        pald.wait_cycle()
        assert minicluster.fields(job)["Restarts"] == "0"


@pytest.mark.slurm("26.05")
def test_a_job_under_pal_run_is_asked_saves_requeues_itself_and_resumes_on_better_gpus(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    words, log = line(tmp_path)
    words = words.replace("--steps 150", "--steps 100000")
    with Pald(minicluster, tmp_path / "pald", MOVES) as pald, minicluster.leases():
        first, job = beside_the_good_gpus(minicluster, pald, words, log)
        minicluster.client("scancel", str(first))
        wait_for_step(log, 1, run=1)
        assert minicluster.gpu_indices(job) == {"n5": "1,3"}
        last = log.lines("saved", 0)[-1]["step"]
        assert log.resumed(1) == [last] and log.steps(1)[0] == last + 1
        wait_for(lambda: json.loads(pald.palctl("moves", "--json"))[0]["ending"] == "moved", "the move is over")
        (row,) = json.loads(pald.palctl("moves", "--json"))
        assert (row["job"], row["to"], row["signal"], row["gpus"]) == (job, "n5:g1,g3", "USR1", 2)
        told = pald.palctl("why", str(job))
        assert "SIGUSR1 went to its steps first, with 30 s to save and to requeue the job." in told
        assert "asked to save by SIGUSR1 to its steps" in told and "to n5:g1,g3" in told
        assert "asked; 0 going on; last week: 1," in pald.palctl("status")
