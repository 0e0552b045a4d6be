"""Real accounting proves that a user's jobs go on after requeues: then one with --requeue is moved, not before."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pal_slurm.model import Ending
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_moves import MOVES, logs, moves

# Fourteen seconds of work, each of them saved.
WORKS = """
n=$(cat {saved}); n=${{n:-0}}
trap 'exit 0' TERM
while [ $n -lt 14 ]; do sleep 1 & wait; n=$((n + 1)); echo $n > {saved}; done
"""


@pytest.fixture
def accounted(release: str) -> Iterator[Minicluster]:
    own = Minicluster.up(f"t{os.getpid()}-proven-{release}", release, "--nodes", "8", "--dbd")
    yield own
    own.down()


def works(cluster: Minicluster, number: int, script: str = WORKS) -> int:
    log = logs(cluster, f"saved-{number}")
    words = ("--requeue", "--comment=app:resnet", "--gres=gpu:2", "-t", "60")
    return cluster.submit(*words, wrap=script.format(saved=log))


def saved(cluster: Minicluster, number: int) -> int:
    return int((cluster.dir / "run" / f"saved-{number}").read_text().strip() or 0)


def would(pald: Pald, job: int) -> str:
    (row,) = (row for row in json.loads(pald.palctl("moves", "--what-if", "--json")) if row["job"] == job)
    return str(row["why"])


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_a_job_with_requeue_is_moved_once_the_accounting_shows_that_such_jobs_go_on(
    accounted: Minicluster, tmp_path: Path
) -> None:
    with Pald(accounted, tmp_path, {**MOVES, "moves.mode": "proven"}) as pald, accounted.leases():
        assert pald.once() == 0
        pald.scores({f"n5:{slot}": 1.0 for slot in range(4)}, others=1.6)
        pald.start()
        taken = accounted.submit("--gres=gpu:4", "--comment=app:bert", "-w", "n5")
        accounted.wait_state(taken, "RUNNING")
        first = works(accounted, 0, "sleep 3000")
        accounted.wait_state(first, "RUNNING")
        assert would(pald, first) == "nobody said that it may be moved"
        past = [works(accounted, number) for number in range(1, 7)]
        for number, job in enumerate(past[:3], 1):
            wait_for(lambda n=number: saved(accounted, n) >= 7, "half of it is done", 90)  # type: ignore[misc]
            accounted.client("scontrol", "requeue", "incomplete", str(job))
            accounted.client("scontrol", "update", f"jobid={job}", f"starttime=uts{int(time.time()) + 8}")
        for job in past:
            accounted.wait_state(job, "COMPLETED", within=120)
        pald.stop()
        pald.start()
        wait_for(lambda: would(pald, first) == "no other GPUs are worth its move", "it is proven", 60)
        accounted.client("scancel", str(taken))
        wait_for(lambda: bool(moves(pald, first)) and moves(pald, first)[0].ending is not None, "it was moved", 60)
        assert moves(pald, first)[0].ending is Ending.MOVED and set(accounted.gpu_indices(first)) == {"n5"}
