"""What every backend promises of pins that ask for a part of a GPU, tried on real slurmctlds: see test_contract.py."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from pal_slurm.model import Job, Outcome, Pin, Request, Unpin
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import LATER, ThroughCli, ThroughPyslurm
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import lua_settings
from tests.slurm.test_contract_edits import one

FORMS = {
    "per node": ("--gres=gpu:1",),
    "per node, by the other name": ("-N1", "--gpus-per-node=1"),
    "of the job": ("--gpus=1",),
    "per task": ("-n1", "--gpus-per-task=1"),
    "per task, with CPUs": ("-n1", "-c2", "--gpus-per-task=1"),
}
EDITS = {
    "nothing": ("StartTime=now",),
    "other nodes": ("ReqNodeList=n1",),
    "no nodes": ("ReqNodeList=",),
    "two GPUs": ("TresPerNode=gres/gpu:2",),
    "other nodes, and two GPUs": ("ReqNodeList=n1", "TresPerNode=gres/gpu:2"),
    "two nodes": ("NumNodes=2",),
    "other nodes to be left out": ("ExcNodeList=n1",),
}
SHARES = "--comment=app:sweep pal:share"


class PartEdits:
    @pytest.mark.parametrize("form", FORMS)
    def test_one_gpu_becomes_a_part_moves_and_becomes_whole_again(
        self, slurm: Slurm, minicluster: Minicluster, form: str
    ) -> None:
        minicluster.drain("n2")  # it has to wait
        before = submitted(slurm, minicluster, *FORMS[form])
        assert before.shares and not before.shard
        for slot in (2, 0):
            pinned = one(slurm, part(before, "n2", slot))
            if not slurm.capabilities().parts:
                assert pinned.outcome is Outcome.REFUSED and slurm.jobs([before.id])[before.id] == before
                return
            assert pinned.outcome is Outcome.DONE, pinned.said
            stands = slurm.jobs([before.id])[before.id]
            assert stands.asks_for(("n2",), (slot,), shard=True) and not stands.asks_for(("n2",), (slot,))
            assert (stands.shape, stands.gpu_job, stands.shares) == (before.shape, True, True)
        whole = Pin(before.id, nodes=("n2",), slots=(1,), original=before.request)
        if "per task" not in form:  # those are not pinned by slot as a whole
            assert one(slurm, whole).outcome is Outcome.DONE
        until = int(time.time()) + 1800
        undone = one(slurm, Unpin(before.id, until=until, original=before.request))
        assert undone.outcome is Outcome.DONE, undone.said
        after = slurm.jobs([before.id])[before.id]
        assert texts(after.request) == texts(before.request) and (after.shape, after.ntasks) == (before.shape, 1)
        assert (after.required_nodes, after.slots, after.shard) == ("", (), False)
        minicluster.client("scancel", str(before.id))

    @pytest.mark.parametrize("form", FORMS)
    def test_a_job_runs_on_the_part_that_it_was_pinned_to(
        self, slurm: Slurm, minicluster: Minicluster, form: str
    ) -> None:
        job = submitted(slurm, minicluster, *FORMS[form])
        if pinned(slurm, minicluster, job, 3):
            found = slurm.jobs([job.id])[job.id]
            assert (found.nodes, found.gpus, found.parts) == (("n1",), ((),), ((3,),))
            assert (found.shape, found.by_part, found.shard, found.shares) == (job.shape, True, True, True)

    def test_two_share_a_gpu_and_a_third_waits_for_a_part_of_it(self, slurm: Slurm, minicluster: Minicluster) -> None:
        jobs = [submitted(slurm, minicluster, "--gres=gpu:1") for _ in range(3)]
        if not all(pinned(slurm, minicluster, job, 2) for job in jobs[:2]):
            return
        assert one(slurm, part(jobs[2], "n1", 2)).outcome is Outcome.DONE
        found = slurm.snapshot()
        row = found.cluster.node_index["n1"]
        assert found.cluster.parts is not None and found.cluster.parts_free is not None
        assert found.cluster.parts[row].tolist() == [2, 2, 2, 2]
        assert found.cluster.parts_free[row].tolist() == [2, 2, 0, 2]
        assert found.cluster.gpu_free[row].tolist() == [True, True, False, True]
        assert [job.id for job in found.pending] == [jobs[2].id]

    @pytest.mark.parametrize("words", EDITS.values(), ids=EDITS)
    def test_what_somebody_edits_in_a_part_stands_when_the_whole_gpu_is_given_back(
        self, slurm: Slurm, minicluster: Minicluster, words: tuple[str, ...]
    ) -> None:
        for node in ("n1", "n2"):
            minicluster.drain(node)  # it has to wait
        job, other = (submitted(slurm, minicluster, "--gres=gpu:1") for _ in range(2))
        if one(slurm, part(job, "n2", 2)).outcome is Outcome.REFUSED:
            assert not slurm.capabilities().parts
            return
        for each in (job, other):
            minicluster.client("scontrol", "update", f"JobId={each.id}", *words)
        until = int(time.time()) + 1800
        undone = one(slurm, Unpin(job.id, until=until, original=job.request, nodes=("n2",)))
        assert undone.outcome is Outcome.DONE, undone.said
        found = slurm.jobs([job.id, other.id])
        stands, alike = found[job.id], found[other.id]
        assert stands.request == alike.request and not (stands.slots or stands.shard)
        assert stands.required_nodes == alike.required_nodes and stands.excluded_nodes == alike.excluded_nodes
        assert (stands.shape, stands.ntasks) == (alike.shape, alike.ntasks)
        minicluster.client("scancel", str(job.id), str(other.id))

    def test_who_runs_can_not_be_asked_to_share(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = submitted(slurm, minicluster, "--gres=gpu:1")
        one(slurm, Pin(job.id, nodes=("n1",), slots=(1,), original=job.request))
        minicluster.wait_state(job.id, "RUNNING")
        expected = Outcome.STARTED
        assert one(slurm, part(job, "n1", 1)).outcome is expected
        assert slurm.jobs([job.id])[job.id].gpus == ((1,),)

    def test_a_part_is_asked_for_nobody_who_did_not_say_so(self, slurm: Slurm, minicluster: Minicluster) -> None:
        with minicluster.leases():
            silent = minicluster.submit(LATER, "--gres=gpu:1", "--mem=100", "--comment=app:sweep")
        two = submitted(slurm, minicluster, "--gres=gpu:2")
        by_gpu = submitted(slurm, minicluster, "--gpus=1", "--mem-per-gpu=100", mem="")
        for job in (slurm.jobs([silent])[silent], two, by_gpu):
            assert not job.shares
            assert one(slurm, part(job, "n1", 1)).outcome is Outcome.REFUSED
            assert slurm.jobs([job.id])[job.id] == job


@pytest.fixture(scope="module")
def in_parts(release: str) -> Iterator[Minicluster]:
    """Two nodes, each with four GPUs of two parts."""
    name = f"t{os.getpid()}-parted-{release}"
    own = Minicluster.up(name, release, "--nodes", "2", "--gpus", "4", "--shards", "2")
    yield own
    own.down()


class InParts:
    """Before a suite of tests: they get that cluster."""

    @pytest.fixture
    def minicluster(self, in_parts: Minicluster) -> Minicluster:
        in_parts.reset()
        lua_settings(in_parts, shards="pald")
        return in_parts


@pytest.mark.slurm(turns=("24.11", "26.05"))
class TestPartEditsThroughCli(ThroughCli, InParts, PartEdits):
    pass


@pytest.mark.slurm("26.05")
class TestPartEditsThroughPyslurm(ThroughPyslurm, InParts, PartEdits):
    pass


def submitted(slurm: Slurm, cluster: Minicluster, *options: str, mem: str = "--mem=100") -> Job:
    """A job that bears our mark, and may share."""
    with cluster.leases():
        job = cluster.submit(LATER, *options, *filter(None, (mem,)), "-t", "30", SHARES)
    return slurm.jobs([job])[job]


def part(job: Job, node: str, slot: int) -> Pin:
    return Pin(job.id, nodes=(node,), slots=(slot,), original=job.request, shard=True)


def pinned(slurm: Slurm, cluster: Minicluster, job: Job, slot: int) -> bool:
    """It runs there; False: this release can't be asked."""
    outcome = one(slurm, part(job, "n1", slot)).outcome
    if not slurm.capabilities().parts:
        assert outcome is Outcome.REFUSED
        return False
    assert outcome is Outcome.DONE
    cluster.wait_state(job.id, "RUNNING")
    return True


def texts(request: Request) -> tuple[str, str, str, str]:
    return request.per_node, request.per_job, request.per_task, request.per_socket
