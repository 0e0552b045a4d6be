"""What every backend promises of jobs of odd shapes: a pin and its undo leave all that the user asked for as it was."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from pal_slurm.model import Edit, EditResult, Job, Outcome, Pin, Plain, Unpin
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import BY_NODES, LATER, ThroughCli, ThroughPyslurm
from tests.slurm.minicluster import Minicluster, wait_for

# What the user asked for in counts, as Slurm itself tells it.
COUNTED = ("NumCPUs", "NumTasks", "CPUs/Task", "TresPerNode", "TresPerJob", "TresPerTask", "CpusPerTres", "ReqNodeList")
REFUSED = {
    "two ways": ("--gpus=4", "--gpus-per-node=2"),
    "per socket": ("--gpus-per-socket=1", "--sockets-per-node=2"),
    "slots": ("--gres=gpu:g1:1",),
}


class Shapes:
    @pytest.mark.parametrize("form", BY_NODES)
    def test_a_job_that_slots_would_damage_is_pinned_by_nodes_and_stays_what_it_is(
        self, slurm: Slurm, minicluster: Minicluster, form: str
    ) -> None:
        minicluster.drain("n6")
        job = minicluster.submit(LATER, *BY_NODES[form])
        before, told = slurm.jobs([job])[job], minicluster.fields(job)
        refused = pin(slurm, before, "n6", (1, 3))
        assert refused.outcome is Outcome.REFUSED and "slots" in refused.said
        assert slurm.jobs([job])[job] == before
        assert pin(slurm, before, "n6", None).outcome is Outcome.DONE
        undone = one(slurm, Unpin(job, until=int(time.time()) + 900, original=before.request))
        assert undone.outcome is Outcome.DONE, undone.said
        stands = minicluster.fields(job)
        assert {key: stands.get(key) for key in COUNTED} == {key: told.get(key) for key in COUNTED}
        assert one(slurm, Plain(job)).outcome is Outcome.DONE
        minicluster.wait_state(job, "RUNNING")
        assert sum(map(len, slurm.jobs([job])[job].gpus)) == 2

    @pytest.mark.parametrize("form", REFUSED)
    def test_a_job_that_no_pin_would_leave_alone_is_refused_before_anything_is_sent(
        self, slurm: Slurm, minicluster: Minicluster, form: str
    ) -> None:
        job = minicluster.submit(LATER, *REFUSED[form])
        before = slurm.jobs([job])[job]
        assert before.shape is None and before.gpu_job  # so it is never planned either
        for slots in (None, (1, 3)):
            assert pin(slurm, before, "n6", slots).outcome is Outcome.REFUSED
        assert slurm.jobs([job])[job] == before

    @pytest.mark.slurm("26.05")  # 24.11 lets it run; before, slots are not asked for
    def test_counts_that_slurm_drove_up_are_given_back(self, slurm: Slurm, minicluster: Minicluster) -> None:
        """By hand, what an older pald did: slots beside --cpus-per-gpu. Slurm then wants two nodes for two GPUs."""
        job = minicluster.submit(LATER, "--gres=gpu:2", "--cpus-per-gpu=3")
        told = minicluster.fields(job)
        for _ in range(2):
            made = slurm.jobs([job])[job].request  # as pald takes it: what Slurm shows before the pin
            typed = "TresPerNode=gres/gpu:g1:1,gres/gpu:g3:1"
            minicluster.client("scontrol", "update", f"jobid={job}", "ReqNodeList=n6", typed, "StartTime=now")
            wait_for(lambda: minicluster.fields(job)["Reason"] in ("Resources", "BadConstraints"), "Slurm looks at it")
            undone = one(slurm, Unpin(job, until=int(time.time()) + 900, original=made))
            assert undone.outcome is Outcome.DONE, undone.said
            stands = minicluster.fields(job)
            assert {key: stands.get(key) for key in COUNTED} == {key: told.get(key) for key in COUNTED}
            after = slurm.jobs([job])[job].request
            assert after.max_nodes == 0 or after.max_nodes >= after.min_nodes
            assert replace(after, max_nodes=0) == replace(made, max_nodes=0)  # "no most" can't be restored
        assert one(slurm, Plain(job)).outcome is Outcome.DONE
        minicluster.wait_state(job, "RUNNING")
        found = slurm.jobs([job])[job]
        assert (len(found.nodes), sum(map(len, found.gpus))) == (1, 2)

    def test_tasks_that_an_edit_made_slurm_count_anew_are_told(self, slurm: Slurm, minicluster: Minicluster) -> None:
        if slurm.capabilities().release.startswith("22.05"):
            return  # it keeps them
        minicluster.drain("n6")
        job = minicluster.submit(
            LATER, "--gpus=2", "--ntasks-per-gpu=1"
        )  # lua leaves these alone: nothing here shows it
        before = slurm.jobs([job])[job]
        done = pin(slurm, before, "n6", (1, 3))
        assert done.outcome is Outcome.PARTIAL and "tasks are 1, and were 2" in done.said

    def test_after_a_restart_of_slurmctld_pins_are_made_and_taken_back_as_before(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        forms = {**BY_NODES, "in total": ("-n2", "--gpus=2")}
        jobs = {form: minicluster.submit(LATER, *forms[form]) for form in ("per task", "CPUs per GPU", "in total")}
        minicluster.restart()
        minicluster.drain("n6")
        for form, job in jobs.items():
            before = slurm.jobs([job])[job]
            assert pin(slurm, before, "n6", None).outcome is Outcome.DONE, form
            undone = one(slurm, Unpin(job, until=int(time.time()) + 900, original=before.request))
            assert undone.outcome is Outcome.DONE, (form, undone.said)
            assert pin(slurm, before, "n5", None).outcome is Outcome.DONE, form
            minicluster.wait_state(job, "RUNNING")
            found = slurm.jobs([job])[job]
            assert (found.nodes, found.ntasks) == (("n5",), before.ntasks), form
            minicluster.client("scancel", str(job))


@pytest.mark.slurm(turns=("26.05", "24.11", "22.05"))
class TestShapesThroughCli(ThroughCli, Shapes):
    pass


@pytest.mark.slurm("26.05")
class TestShapesThroughPyslurm(ThroughPyslurm, Shapes):
    pass


def one(slurm: Slurm, edit: Edit) -> EditResult:
    (result,) = slurm.apply([edit])
    return result


def pin(slurm: Slurm, job: Job, node: str, slots: tuple[int, ...] | None) -> EditResult:
    return one(slurm, Pin(job.id, nodes=(node,), slots=slots, original=job.request))
