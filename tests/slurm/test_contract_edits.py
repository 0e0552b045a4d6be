"""What every backend promises of edits, tried on a real slurmctld of every release it serves: see test_contract.py."""

from __future__ import annotations

import time
from itertools import count

import pytest

from pal_slurm.model import LATE, Edit, EditResult, Job, JobState, Outcome, Pin, Plain, Renew, Request, Unpin
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import FORMS, LATER, ThroughCli, ThroughPyslurm, asked_for
from tests.slurm.minicluster import Minicluster


class Edits:
    @pytest.mark.parametrize("form", FORMS)
    def test_a_pinned_job_runs_on_exactly_its_slots(self, slurm: Slurm, minicluster: Minicluster, form: str) -> None:
        job = minicluster.submit(LATER, *FORMS[form], wrap="srun true && sleep 300")
        made = slurm.jobs([job])[job].request
        result = one(slurm, Pin(job, nodes=("n6",), slots=(1, 3), original=made))
        assert result.outcome is Outcome.DONE, result.said
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n6": "1,3"}
        found = slurm.jobs([job])[job]
        assert (found.nodes, found.gpus) == (("n6",), ((1, 3),))

    @pytest.mark.parametrize("form", FORMS)
    def test_steps_of_a_pinned_job_run_as_without_a_pin(
        self, slurm: Slurm, minicluster: Minicluster, form: str
    ) -> None:
        job = minicluster.submit(LATER, *FORMS[form], wrap='test "$(srun -n1 sh -c \'echo "$CUDA_VISIBLE_DEVICES"\')"')
        made = slurm.jobs([job])[job].request
        assert one(slurm, Pin(job, nodes=("n6",), slots=(1, 3), original=made)).outcome in (
            Outcome.DONE, Outcome.GONE,
        )  # fmt: skip
        minicluster.wait_state(job, "COMPLETED")

    def test_a_job_of_two_nodes_gets_the_same_slots_on_both(self, slurm: Slurm, minicluster: Minicluster) -> None:
        per_node = minicluster.submit(LATER, "-N2", "--gpus-per-node=2", wrap="srun true && sleep 300")
        total = minicluster.submit(LATER, "-N2", "--gpus=4", wrap="srun true && sleep 300")
        jobs = slurm.jobs([per_node, total])
        results = slurm.apply(
            [
                Pin(per_node, nodes=("n2", "n5"), slots=(1, 3), original=jobs[per_node].request),
                Pin(total, nodes=("n3", "n4"), slots=(0, 2), original=jobs[total].request),
            ]
        )
        assert [result.outcome for result in results] == [Outcome.DONE, Outcome.DONE], results
        for job in (per_node, total):
            minicluster.wait_state(job, "RUNNING")
        found = slurm.jobs([per_node, total])
        assert (found[per_node].nodes, found[per_node].gpus) == (("n2", "n5"), ((1, 3), (1, 3)))
        assert (found[total].nodes, found[total].gpus) == (("n3", "n4"), ((0, 2), (0, 2)))

    def test_a_pin_of_nodes_alone_leaves_the_gpus_to_slurm(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit(LATER, "-N1-2", "-n2", "--gpus=2")
        before = slurm.jobs([job])[job]
        result = one(slurm, Pin(job, nodes=("n7",), original=before.request))
        assert result.outcome is Outcome.DONE, result.said
        assert result.after and result.after.request.per_job == before.request.per_job
        minicluster.wait_state(job, "RUNNING")
        found = slurm.jobs([job])[job]
        assert (found.nodes, found.gpus) == (("n7",), ((0, 1),))

    @pytest.mark.parametrize("form", FORMS)
    def test_a_pin_is_moved_and_taken_back_as_far_as_the_release_can(
        self, slurm: Slurm, minicluster: Minicluster, form: str
    ) -> None:
        able = slurm.capabilities()
        minicluster.drain("n6")  # the pinned job has to wait
        job = minicluster.submit(LATER, *FORMS[form])
        before = slurm.jobs([job])[job]
        assert pin(slurm, before, "n6", (1, 3)).outcome is Outcome.DONE
        stands = slurm.jobs([job])[job]
        assert before.slots == () and stands.slots == (1, 3) and stands.asks_for(("n6",), (1, 3))
        moved = pin(slurm, before, "n6", (0, 2))
        assert moved.outcome is (Outcome.DONE if able.repin else Outcome.REFUSED)
        assert moved.said or able.repin
        until = int(time.time()) + 1800
        undone = one(slurm, Unpin(job, until=until, original=before.request))
        after = slurm.jobs([job])[job]
        assert after.required_nodes == "" and after.eligible == until
        if able.restore_untyped:
            assert undone.outcome is Outcome.DONE, undone.said
            assert asked_for(after) == asked_for(before) and after.shape == before.shape
            assert after.slots == ()
        else:
            assert undone.outcome is Outcome.PARTIAL and undone.said

    def test_a_pin_of_nodes_alone_is_taken_back_exactly_by_every_release(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        minicluster.drain("n6")
        job = minicluster.submit(LATER, "-N1-2", "-n2", "--gpus=2")
        before = slurm.jobs([job])[job]
        assert one(slurm, Pin(job, nodes=("n6",), original=before.request)).outcome is Outcome.DONE
        undone = one(slurm, Unpin(job, until=int(time.time()) + 900, original=before.request))
        assert undone.outcome is Outcome.DONE, undone.said
        after = slurm.jobs([job])[job]
        assert (asked_for(after), after.required_nodes) == (asked_for(before), "")

    def test_an_unpinned_job_starts_elsewhere_when_told_now(self, slurm: Slurm, minicluster: Minicluster) -> None:
        minicluster.drain("n6")
        job = minicluster.submit(LATER, "--gpus=2")
        before = slurm.jobs([job])[job]
        pin(slurm, before, "n6", (1, 3))
        one(slurm, Unpin(job, original=before.request))
        minicluster.wait_state(job, "RUNNING")
        assert slurm.jobs([job])[job].nodes != ("n6",)

    def test_a_lease_is_renewed_to_the_second_and_a_plain_release_starts_the_job(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1")
        until = int(time.time()) + 777
        renewed = one(slurm, Renew(job, until=until))
        assert renewed.outcome is Outcome.DONE, renewed.said
        assert slurm.jobs([job])[job].eligible == until
        assert one(slurm, Plain(job)).outcome is Outcome.DONE
        minicluster.wait_state(job, "RUNNING")

    def test_one_task_of_an_array_is_split_off_and_the_others_stay(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        array = minicluster.submit(LATER, "-a", "1-5", "--gpus=1")
        before = slurm.jobs([array])[array]
        result = one(slurm, Pin(array, task=3, nodes=("n8",), slots=(2,), original=before.request))
        assert result.outcome is Outcome.DONE, result.said
        assert result.after and (result.after.array_id, result.after.array_task) == (array, 3)
        split = result.after.id
        minicluster.wait_state(split, "RUNNING")
        assert slurm.jobs([split])[split].gpus == ((2,),)
        rest = next(j for j in slurm.snapshot().pending if j.array_id == array)
        assert rest.array_tasks == (1, 2, 4, 5)

    def test_renewing_an_array_leaves_a_released_task_alone(self, slurm: Slurm, minicluster: Minicluster) -> None:
        for node in minicluster.nodes:
            minicluster.drain(node)  # the released task has to wait
        array = minicluster.submit(LATER, "-a", "1-4", "--gpus=1")
        released = one(slurm, Plain(array, task=2))
        assert released.outcome is Outcome.DONE and released.after, released.said
        until = int(time.time()) + 1200
        rest = next(j for j in slurm.snapshot().pending if j.array_id == array and j.array_task is None)
        renewed = one(slurm, Renew(rest.id, until=until))
        assert renewed.outcome is Outcome.DONE, renewed.said
        jobs = [j for j in slurm.snapshot().pending if j.array_id == array]
        assert {j.array_tasks or (j.array_task,): j.eligible for j in jobs}[(1, 3, 4)] == until
        (task,) = (j for j in jobs if j.array_task == 2)
        assert task.eligible is not None and task.eligible < until - 600

    def test_a_job_that_runs_or_is_gone_is_told_and_not_touched(self, slurm: Slurm, minicluster: Minicluster) -> None:
        runs = minicluster.submit("-N2", "--gpus-per-node=1", wrap="srun -n2 sleep 300")
        gone = minicluster.submit(LATER, "--gres=gpu:1")
        minicluster.wait_state(runs, "RUNNING")
        job = slurm.jobs([runs])[runs]
        minicluster.client("scancel", str(gone))
        results = slurm.apply(
            [
                Pin(runs, nodes=job.nodes[:1], slots=(0,), original=job.request),
                Plain(gone),
                Plain(4_000_000),
            ]
        )
        assert [r.outcome for r in results] == [Outcome.STARTED, Outcome.GONE, Outcome.GONE]
        found = slurm.jobs([runs])[runs]
        assert found.state is JobState.RUNNING and found.nodes == job.nodes

    def test_an_edit_that_is_refused_changes_nothing_and_spoils_no_other(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        first, bad, last = (minicluster.submit(LATER, "--gres=gpu:1") for _ in range(3))
        before = slurm.jobs([bad])[bad]
        until = int(time.time()) + 888
        results = slurm.apply(
            [
                Renew(first, until=until),
                Pin(bad, nodes=("nowhere",), original=before.request),
                Renew(last, until=until),
            ]
        )
        assert [r.outcome for r in results] == [Outcome.DONE, Outcome.REFUSED, Outcome.DONE], results
        assert "node" in results[1].said
        after = slurm.jobs([bad])[bad]
        assert (after.request, after.required_nodes, after.eligible) == (before.request, "", before.eligible)

    def test_an_edit_refused_half_way_is_reported_as_what_stands(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1")
        before = slurm.jobs([job])[job]
        edit = Pin(job, nodes=("n5",), slots=(2,), partition="nosuch", original=before.request)
        result = one(slurm, edit)
        assert result.outcome in (Outcome.REFUSED, Outcome.PARTIAL) and "partition" in result.said
        fields = minicluster.fields(job)
        stands = fields["ReqNodeList"] == "(null)" and result.after == before
        assert (result.outcome is Outcome.REFUSED) is stands
        assert slurm.jobs([job])[job] == result.after

    def test_nothing_but_plain_names_is_ever_sent(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1")
        before = slurm.jobs([job])[job]
        evil = "n1 StartTime=now"
        broken = Request(per_node="gres/gpu:1\nupdate jobid=1", partition="gpu")
        results = slurm.apply(
            [
                Pin(job, nodes=(evil,), original=before.request),
                Pin(job, nodes=("n1",), partition="gpu\nshutdown", original=before.request),
                Pin(job, nodes=("n1",), slots=(1,), original=broken),
                Pin(job, nodes=("n1", "n1"), original=before.request),
                Pin(job, nodes=(), original=before.request),
            ]
        )
        assert {r.outcome for r in results} == {Outcome.REFUSED}
        assert slurm.jobs([job])[job] == before

    def test_a_batch_of_edits_is_judged_one_by_one(self, slurm: Slurm, minicluster: Minicluster) -> None:
        ids = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(20)]
        until = int(time.time()) + 999
        results = slurm.apply([Renew(job, until=until) for job in ids])
        assert [(r.edit.job, r.outcome) for r in results] == [(job, Outcome.DONE) for job in ids]
        assert {job.eligible for job in slurm.jobs(ids).values()} == {until}
        assert slurm.apply([]) == []

    @pytest.mark.parametrize("times", [0, 1, 12])
    def test_what_there_is_no_time_for_is_not_sent(self, times: int, slurm: Slurm, minicluster: Minicluster) -> None:
        """Time enough, when it is asked for the first `times`; then none."""
        ids, asked = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(20)], count()
        until, before = int(time.time()) + 1999, slurm.jobs(ids)
        results = slurm.apply([Renew(job, until=until) for job in ids], lambda: 60.0 if next(asked) < times else 0.0)
        late = {r.edit.job for r in results if (r.outcome, r.said) == (Outcome.REFUSED, LATE)}
        assert {r.outcome for r in results if r.edit.job not in late} <= {Outcome.DONE}
        stands = slurm.jobs(ids)
        assert all((job.eligible == until) is (job.id not in late) for job in stands.values())
        assert all(stands[job] == before[job] for job in late)
        assert len(late) == 20 if times < 2 else len(late) < 20


@pytest.mark.slurm(turns=("26.05", "24.11", "22.05"))
class TestEditsThroughCli(ThroughCli, Edits):
    pass


@pytest.mark.slurm("26.05")
class TestEditsThroughPyslurm(ThroughPyslurm, Edits):
    pass


def one(slurm: Slurm, edit: Edit) -> EditResult:
    (result,) = slurm.apply([edit])
    return result


def pin(slurm: Slurm, job: Job, node: str, slots: tuple[int, ...]) -> EditResult:
    return one(slurm, Pin(job.id, nodes=(node,), slots=slots, original=job.request))
