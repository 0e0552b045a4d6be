"""SimSlurm keeps what the two real backends promise: the very suites of tests/slurm, of every release, in seconds.

What it does not model is skipped by name, with the reason; none of these counts as a test of a real Slurm.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from pal_slurm.sim.slurm.backend import SimSlurm
from tests.simcluster import SimCluster, SteppingSlurm
from tests.slurm.backends import SITE
from tests.slurm.test_contract import Reading
from tests.slurm.test_contract_edits import Edits
from tests.slurm.test_contract_exclude import Exclusions
from tests.slurm.test_contract_moves import MoveEdits
from tests.slurm.test_contract_parts import PartEdits
from tests.slurm.test_contract_shapes import Shapes

NOT_MODELLED = {
    "test_a_feature_that_slurm_would_reboot_a_node_for_is_slurms_to_see_to": "features are not edited",
    "test_what_a_job_would_lose_by_a_requeue_is_told": "deadlines and burst buffers are not modelled",
    "test_a_heterogeneous_job_is_known_as_one": "jobs of several components are not modelled",
    "test_counts_that_slurm_drove_up_are_given_back": "CPUs that 26.05 counts per slot are not modelled",
}


class OnSim:
    """Before a suite of tests: they get SimSlurm, of each release in turn."""

    @pytest.fixture(params=["sim-22.05", "sim-24.11", "sim-26.05"])
    def release(self, request: pytest.FixtureRequest) -> str:
        return str(request.param).removeprefix("sim-")

    @pytest.fixture
    def minicluster(self, release: str, request: pytest.FixtureRequest) -> SimCluster:
        name = request.node.originalname
        if name in NOT_MODELLED:
            pytest.skip(NOT_MODELLED[name])
        return SimCluster(release)

    @pytest.fixture
    def slurm(self, minicluster: SimCluster) -> SteppingSlurm:
        return minicluster.slurm


class TestReadingOnSim(OnSim, Reading):
    pass


class TestEditsOnSim(OnSim, Edits):
    pass


class TestExclusionsOnSim(OnSim, Exclusions):
    pass


class TestMoveEditsOnSim(OnSim, MoveEdits):
    pass


class TestShapesOnSim(OnSim, Shapes):
    pass


class TestPartEditsOnSim(OnSim, PartEdits):
    @pytest.fixture
    def minicluster(self, release: str) -> SimCluster:
        return SimCluster(release, count=2, shards=2)


def test_what_is_skipped_is_there() -> None:
    """A suite's test that was renamed must not be skipped for ever."""
    suites = (Reading, Edits, Exclusions, MoveEdits, Shapes)
    assert all(any(hasattr(suite, name) for suite in suites) for name in NOT_MODELLED)


def test_a_cluster_read_in_part_is_the_one_read_whole() -> None:
    """SimSlurm reads only the nodes anew whose jobs came or went."""
    cluster = SimCluster(count=3)
    rng, jobs = random.Random(7), []
    for _ in range(60):
        if rng.random() < 0.6:
            jobs.append(cluster.submit(f"--gpus={rng.randrange(1, 6)}", f"-n{rng.randrange(1, 4)}", "-N1-3"))
        elif jobs:
            cluster.client("scancel", str(jobs.pop(rng.randrange(len(jobs)))))
        cluster.pass_time(2.5)
        part, whole = cluster.slurm.inner.snapshot().cluster, SimSlurm(cluster.controller, SITE).snapshot().cluster
        for name, value in vars(whole).items():
            same = getattr(part, name)
            if name == "partitions":
                assert all((value[key] == same[key]).all() for key in value)
            else:
                assert (value == same).all() if isinstance(value, np.ndarray) else value == same, name
