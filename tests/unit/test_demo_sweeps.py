"""What scripts/demo --moves submits: sweeps of one-GPU jobs and jobs of whole nodes; and when it is content."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from demo_lib import moving
from demo_lib.figures import figures
from demo_lib.run import Ran
from demo_lib.speeds import make
from demo_lib.workload import DemoJob


@pytest.mark.parametrize("seed", range(4))
def test_two_thirds_are_one_gpu_jobs_of_two_sweeps_and_the_others_need_whole_nodes(seed: int) -> None:
    jobs = moving.make(78, 32, seed, 1.0, 24.0)
    assert [job.number for job in jobs] == list(range(78)) and all(job.saves for job in jobs)
    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    sweeps, wide = ([job for job in jobs if (job.gpus == 1) == one] for one in (True, False))
    assert len(sweeps) == 52 and {job.gpus for job in wide} == {4, 8}
    first, second = sweeps[:26], sweeps[26:]
    assert len({job.app for job in first}) == len({job.app for job in second}) == 1
    assert second[0].at - first[-1].at > 60 and second[-1].at - second[0].at == pytest.approx(25 * moving.GAP_S)
    assert 3 < (sum(j.ideal_s for j in sweeps) / 52) / (sum(j.ideal_s for j in wide) / 26) < 8
    span = 2 * second[0].at
    assert sum(job.gpus * job.ideal_s for job in jobs) == pytest.approx(32 * span, rel=0.01)
    assert wide[-1].at == pytest.approx(span)
    assert jobs == moving.make(78, 32, seed, 1.0, 24.0) != moving.make(78, 32, seed + 9, 1.0, 24.0)


def test_it_is_content_with_a_clear_gain_for_the_same_work_alone() -> None:
    ran = Ran(DemoJob(1, 0.0, "bert", 1, 100, saves=True), 0.0, 100.0, 100.0, 100.0, (("n1", "g0"),))
    still = figures([ran], make(1, 4, 1, slow_cards=False))

    def verdict(**moved: float) -> int:
        return moving.verdict(Console(quiet=True), {"pal": still, "moves": replace(still, moves=1, **moved)})  # type: ignore[arg-type]

    assert verdict(avg_jct_s=93.0) == 0
    assert verdict(avg_jct_s=94.0) == 1
    assert verdict(avg_jct_s=80.0, lost=1) == 1
    assert verdict(avg_jct_s=80.0, completed=2) == 1
