"""What scripts/demo --moves counts of a job that was stopped and started again, on a real Slurm."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from demo_lib.cluster import Stage
from demo_lib.figures import figures
from demo_lib.run import Ran, run
from demo_lib.speeds import make
from demo_lib.workload import DemoJob

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.test_palwork import start_again
from tests.slurm.worklog import WorkLog


@pytest.mark.every(3)
@pytest.mark.slurm("26.05")
def test_a_job_that_moves_is_one_job_whose_runs_are_added_up(minicluster: Minicluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    jobs = [DemoJob(0, 0.0, "resnet", 2, 80, saves=True), DemoJob(1, 0.0, "pagerank", 8, 160, saves=True)]
    stage = Stage(minicluster.bin, {"PATH": f"{minicluster.bin}:/usr/bin:/bin"})
    ran: list[Ran] = []
    demo = threading.Thread(target=lambda: ran.extend(run(jobs, stage, out, lambda done, running: None)))
    demo.start()
    logs = [WorkLog(out / f"{number}.log") for number in (0, 1)]
    wait_for(lambda: all(len(log.steps()) > 5 for log in logs), "both are at work")
    numbers = [int(log.lines("start")[0]["job"]) for log in logs]
    minicluster.client("scontrol", "requeue", "incomplete", ",".join(map(str, numbers)))
    for job in numbers:
        start_again(minicluster, job)
    demo.join(timeout=120)
    assert [r.job.number for r in ran] == [0, 1]
    for r in ran:
        assert r.worked is not None and (r.worked.runs, r.worked.twice, r.worked.lost) == (2, 0, 0)
        assert r.worked.dead_s > 0 and r.ran_s >= 0.9 * r.true_s
    found = figures(ran, make(8, 4, 1, slow_cards=False))
    assert (found.completed, found.moves, found.twice, found.lost) == (2, 2, 0, 0) and found.dead_share > 0
