"""Jobs that must not wait for pald (P5, P13): each story with pald and without it, on one cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster
from tests.slurm.waiting import CASES, CLUSTER, Case, started_pald, taught, told


@pytest.mark.slurm(turns=("24.11", "26.05"))
@pytest.mark.parametrize("case", [CASES["array"], CASES["srun"]], ids=lambda case: case.name)
def test_a_job_that_gains_nothing_by_waiting_does_not_wait(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path, case: Case
) -> None:
    _keeps(make_minicluster(*CLUSTER), tmp_path, case)


@pytest.mark.slow
@pytest.mark.slurm(turns=("24.11", "26.05"))
@pytest.mark.parametrize("case", [CASES["stream"], CASES["seconds"], CASES["usual-wide"]], ids=lambda case: case.name)
def test_nobody_waits_much_longer_than_without_pald(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path, case: Case
) -> None:
    _keeps(make_minicluster(*CLUSTER), tmp_path, case)


def _keeps(cluster: Minicluster, home: Path, case: Case) -> None:
    with started_pald(cluster, home):
        taught(cluster, case)
        pairs = []
        for number in range(2):  # on a machine that is busy with other tests one pair proves little
            pairs.append(told(cluster, case, ours_first=number % 2 == 1))
            if case.kept(pairs[-1]):
                return
    raise AssertionError(f"{case.name}: {', '.join(map(str, pairs))}")
