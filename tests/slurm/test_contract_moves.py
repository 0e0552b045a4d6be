"""What every backend promises of edits of running jobs, and of jobs between two runs, on every release it serves."""

from __future__ import annotations

import time

import pytest

from pal_slurm.model import (
    Edit,
    EditResult,
    Fence,
    Given,
    Job,
    JobState,
    Outcome,
    Pin,
    Renew,
    Renice,
    Requeue,
    Unpin,
    Waits,
    Warn,
)
from pal_slurm.slurm.port import Slurm
from tests.slurm.backends import LATER, ThroughCli, ThroughPyslurm, asked_for
from tests.slurm.minicluster import Minicluster

SLOW_TO_END = "trap 'sleep 3; exit 0' TERM; sleep 300 & wait"
ENDS_WELL = "trap 'exit 0' USR1; sleep 300 & wait"
IN_A_STEP = "srun -n1 sh -c \"trap 'exit 0' USR1; sleep 300 & wait\""
GOES_BACK = "trap 'scontrol requeue $SLURM_JOB_ID' USR1; sleep 300 & wait"


class MoveEdits:
    def test_a_job_is_requeued_unpinned_leased_and_ahead_in_one_go_and_pinned_anew(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job, before = pinned(slurm, minicluster, ("n6",), (1, 3))
        until = int(time.time()) + 50
        result = one(slurm, Requeue(job, until=until, original=before.request, nice=-50, seen=running(slurm, job)))
        assert result.outcome is Outcome.DONE, result.said
        waits = free(slurm, job)
        assert (waits.restarts, waits.eligible, waits.nice, waits.required_nodes) == (1, until, -50, "")
        assert waits.lease is None and waits.batch in (1, None) and waits.nodes == ()
        able = slurm.capabilities()
        assert (asked_for(waits) == asked_for(before)) is able.restore_untyped
        assert pin(slurm, waits, before, ("n5",), (1, 3)).outcome is Outcome.DONE
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n5": "1,3"}
        assert one(slurm, Renice(job, nice=0)).outcome is Outcome.DONE
        assert running(slurm, job).nice == 0

    def test_a_fence_keeps_others_out_and_nobody_who_runs_there_until_it_is_lifted(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job = minicluster.submit("--gres=gpu:2", "-w", "n5")
        minicluster.wait_state(job, "RUNNING")
        until = int(time.time()) + 100
        fence = Fence(job, nodes=("n5", "n6"), until=until, seen=running(slurm, job))
        assert one(slurm, fence).outcome is Outcome.DONE
        assert one(slurm, fence).outcome is Outcome.REFUSED, "there is one already"
        (stands,) = slurm.snapshot().reservations
        assert stands.fenced == job and stands.nodes == {"n5", "n6"} and abs(stands.end - until) <= 60
        kept_out = [minicluster.submit("--gres=gpu:1", "-w", name) for name in ("n5", "n6")]
        let_in = minicluster.submit("--gres=gpu:1", "-w", "n7")
        minicluster.wait_state(let_in, "RUNNING")
        assert {minicluster.state(number) for number in kept_out} == {"PENDING"}
        assert minicluster.state(job) == "RUNNING" and slurm.snapshot().cluster.node_ok[:6].all()
        for _ in range(2):  # one that is gone is no error
            slurm.lift([job])
        assert slurm.snapshot().reservations == ()
        for number in kept_out:
            minicluster.wait_state(number, "RUNNING")
        assert one(slurm, Fence(job, nodes=("n5; id",), until=until)).outcome is Outcome.REFUSED

    def test_whose_jobs_may_be_moved_without_a_word_is_told_anew(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit("--gres=gpu:2", "--requeue")
        minicluster.wait_state(job, "RUNNING")
        (partition,) = running(slurm, job).partitions
        for partitions, given in ((("other", partition), Given.SITE), (("other",), Given.NOT), ((), Given.NOT)):
            slurm.movable((), partitions)
            assert running(slurm, job).consent.given is given
            (seen,) = (found for found in slurm.snapshot().running if found.id == job)
            assert seen.consent.given is given

    def test_what_a_job_would_lose_by_a_requeue_is_told(self, slurm: Slurm, minicluster: Minicluster) -> None:
        """Slurm ends a waiting job when its whole limit does not fit before its deadline any more."""
        late, staged = ("--deadline=now+3600", "-t1"), ("--bb=capacity=1G",)
        jobs = [minicluster.submit("--gres=gpu:1", *words) for words in ((), late, staged)]
        for job in jobs:
            minicluster.wait_state(job, "RUNNING")
        found = slurm.bound(jobs)
        assert found.keys() == set(jobs[1:]) and slurm.bound([]) == {}
        assert "deadline" in found[jobs[1]] and "burst buffer" in found[jobs[2]]

    @pytest.mark.parametrize("form", [("--gres=gpu:2",), ("--gpus=2",)], ids=["per node", "in total"])
    def test_a_job_that_was_never_pinned_moves_to_any_slots(
        self, slurm: Slurm, minicluster: Minicluster, form: tuple[str, ...]
    ) -> None:
        job = minicluster.submit(*form)
        minicluster.wait_state(job, "RUNNING")
        before = running(slurm, job)
        assert one(slurm, Requeue(job, until=int(time.time()) + 50)).outcome is Outcome.DONE
        waits = free(slurm, job)
        assert pin(slurm, waits, before, ("n7",), (0, 3)).outcome is Outcome.DONE
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n7": "0,3"}

    def test_a_pinned_job_moves_to_other_slots_where_the_release_can(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job, before = pinned(slurm, minicluster, ("n6",), (1, 3))
        one(slurm, Requeue(job, until=int(time.time()) + 50, original=before.request))
        waits = free(slurm, job)
        moved = pin(slurm, waits, before, ("n6",), (0, 2))
        if not slurm.capabilities().repin:
            assert moved.outcome is Outcome.REFUSED and moved.said
            return
        assert moved.outcome is Outcome.DONE, moved.said
        minicluster.wait_state(job, "RUNNING")
        assert minicluster.gpu_indices(job) == {"n6": "0,2"}

    def test_a_job_of_two_nodes_moves_to_nodes_that_it_partly_had(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job, before = pinned(slurm, minicluster, ("n2", "n3"), (1, 3), "-N2", "--gpus-per-node=2")
        one(slurm, Requeue(job, until=int(time.time()) + 50, original=before.request))
        waits = free(slurm, job)
        assert pin(slurm, waits, before, ("n3", "n4"), (1, 3)).outcome is Outcome.DONE
        minicluster.wait_state(job, "RUNNING")
        found = running(slurm, job)
        assert (found.nodes, found.gpus) == (("n3", "n4"), ((1, 3), (1, 3)))

    def test_a_job_that_may_have_one_or_two_nodes_may_have_them_again(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job, before = pinned(slurm, minicluster, ("n6",), None, "-N1-2", "-n2", "--gpus=2")
        assert one(slurm, Requeue(job, until=int(time.time()) + 50, original=before.request)).outcome is Outcome.DONE
        waits = free(slurm, job)
        assert waits.required_nodes == ""
        if slurm.capabilities().repin:  # 22.05 forgets the most: the guard moves no such job there
            assert asked_for(waits) == asked_for(before)

    def test_while_its_old_run_ends_its_lease_is_renewed_and_its_pin_taken_back(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job, before = pinned(slurm, minicluster, ("n6",), None, wrap=SLOW_TO_END)
        minicluster.client("scontrol", "requeue", str(job))
        ends = running(slurm, job)
        assert ends.completing and ends.restarts == 1 and ends.nodes == ("n6",)
        until = int(time.time()) + 40
        assert one(slurm, Unpin(job, until=until)).outcome is Outcome.STARTED
        undone = one(slurm, Unpin(job, until=until, original=before.request, nice=-7, between=True))
        assert undone.outcome is Outcome.DONE, undone.said
        assert one(slurm, Renew(job, until=until + 30)).outcome is Outcome.STARTED
        assert one(slurm, Renew(job, until=until + 30, between=True)).outcome is Outcome.DONE
        waits = free(slurm, job)
        assert (waits.eligible, waits.required_nodes, waits.nice) == (until + 30, "", -7)

    @pytest.mark.parametrize("by", ["uhold", "hold"])
    def test_a_held_job_whose_nice_is_written_stays_held_as_it_was(
        self, slurm: Slurm, minicluster: Minicluster, by: str
    ) -> None:
        """priority/basic would release it: `scontrol update Nice` alone gives it a priority again."""
        job, before = pinned(slurm, minicluster, ("n6",), None, wrap=SLOW_TO_END)
        one(slurm, Requeue(job, until=int(time.time()) + 2, original=before.request, nice=-50))
        minicluster.client("scontrol", by, str(job))
        ends, until = running(slurm, job), int(time.time()) + 30
        assert ends.completing and ends.priority == 0
        held = one(slurm, Renice(job, until=until, nice=3))
        assert held.outcome is Outcome.DONE, held.said
        for nice in (7, 0):
            waits = free(slurm, job)
            assert (waits.priority, waits.why, waits.nice) == (0, Waits.HELD, 3 if nice == 7 else 7)
            assert waits.reason == ("JobHeldUser" if by == "uhold" else "JobHeldAdmin")
            assert one(slurm, Renice(job, until=until, nice=nice)).outcome is Outcome.DONE
        assert slurm.jobs([job])[job].priority == 0
        minicluster.client("scontrol", "release", str(job))
        released = slurm.jobs([job])[job]
        assert released.priority > 0 and released.nice == 0 and (released.eligible or 0) >= until

    def test_a_priority_that_somebody_wrote_over_our_nice_is_reckoned_anew(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        job = minicluster.submit(LATER, "--gres=gpu:1")
        was = slurm.jobs([job])[job].priority
        minicluster.client("scontrol", "update", f"jobid={job}", f"priority={was + 40_000}")
        result = one(slurm, Renice(job, anew=True, nice=4))
        assert result.outcome is Outcome.DONE, result.said
        now = slurm.jobs([job])[job]
        assert 0 < now.priority < was and now.nice == 4
        again = one(slurm, Renice(job, anew=True, nice=5))  # of what nobody wrote over
        assert again.outcome is Outcome.DONE and slurm.jobs([job])[job].priority < now.priority

    def test_a_job_that_may_not_be_requeued_runs_on(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit("--gres=gpu:1", "--no-requeue")
        minicluster.wait_state(job, "RUNNING")
        was = running(slurm, job)
        result = one(slurm, Requeue(job, until=int(time.time()) + 40))
        assert result.outcome is Outcome.REFUSED and "disabled" in result.said
        now = running(slurm, job)
        assert (now.nodes, now.gpus, now.start, now.restarts, now.request) == (
            was.nodes, was.gpus, was.start, 0, was.request,
        )  # fmt: skip

    def test_a_signal_goes_to_the_script_or_to_the_steps(self, slurm: Slurm, minicluster: Minicluster) -> None:
        script = minicluster.submit("--gres=gpu:1", wrap=ENDS_WELL)
        step = minicluster.submit("--gres=gpu:1", wrap=IN_A_STEP)
        back = minicluster.submit("--gres=gpu:1", wrap=GOES_BACK)
        for job in (script, step, back):
            minicluster.wait_state(job, "RUNNING")
        time.sleep(1.0)  # the shells have set their traps
        edits = [Warn(script, signal="USR1", to_script=True), Warn(step, signal="USR1")]
        edits.append(Warn(back, signal="USR1", to_script=True))
        results = slurm.apply(edits)
        assert all(r.outcome in (Outcome.DONE, Outcome.GONE) for r in results), results
        minicluster.wait_state(script, "COMPLETED")
        minicluster.wait_state(step, "COMPLETED")
        assert free(slurm, back).restarts == 1

    def test_what_waits_or_ends_or_is_gone_is_neither_warned_nor_requeued(
        self, slurm: Slurm, minicluster: Minicluster
    ) -> None:
        waits, gone = minicluster.submit(LATER, "--gres=gpu:1"), minicluster.submit("--gres=gpu:1")
        ends = minicluster.submit("--gres=gpu:1", wrap=SLOW_TO_END)
        minicluster.wait_state(gone, "RUNNING")
        minicluster.wait_state(ends, "RUNNING")
        time.sleep(1.0)
        minicluster.client("scancel", str(gone))
        minicluster.wait_state(gone, "CANCELLED")
        minicluster.client("scontrol", "requeue", str(ends))
        until = int(time.time()) + 40
        jobs = (waits, gone, ends)
        requeued = slurm.apply([Requeue(job, until=until) for job in jobs])
        warned = slurm.apply([Warn(job, signal="USR1") for job in jobs])
        wanted = [Outcome.REFUSED, Outcome.GONE, Outcome.REFUSED]
        assert [[r.outcome for r in results] for results in (requeued, warned)] == [wanted, wanted]
        assert slurm.jobs([waits])[waits].restarts == 0 and free(slurm, ends).restarts == 1
        assert minicluster.state(gone) == "CANCELLED"

    def test_of_an_array_only_the_task_that_is_meant_is_requeued(self, slurm: Slurm, minicluster: Minicluster) -> None:
        array = minicluster.submit("--gpus=1", "-a", "1-3")
        deadline = time.monotonic() + 30
        while len(tasks := [j for j in slurm.snapshot().running if j.array_id == array]) < 3:
            assert time.monotonic() < deadline
        last = next(job for job in tasks if job.id == array)  # Slurm gives the array's own id to one of them
        result = one(slurm, Requeue(last.id, until=int(time.time()) + 40))
        assert result.outcome is Outcome.DONE, result.said
        free(slurm, last.id)
        restarts = {job.id: job.restarts for job in slurm.jobs([job.id for job in tasks]).values()}
        assert restarts == {job.id: int(job.id == array) for job in tasks}

    def test_only_signals_that_users_may_name_are_sent(self, slurm: Slurm, minicluster: Minicluster) -> None:
        job = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(job, "RUNNING")
        for signal in ("KILL", "9", "USR1 --help", "", "SIGUSR1"):
            assert one(slurm, Warn(job, signal=signal)).outcome is Outcome.REFUSED
        assert minicluster.state(job) == "RUNNING"


@pytest.mark.slurm(turns=("26.05", "24.11", "22.05"))
class TestMoveEditsThroughCli(ThroughCli, MoveEdits):
    pass


@pytest.mark.slurm("26.05")
class TestMoveEditsThroughPyslurm(ThroughPyslurm, MoveEdits):
    pass


def one(slurm: Slurm, edit: Edit) -> EditResult:
    (result,) = slurm.apply([edit])
    return result


def running(slurm: Slurm, job: int) -> Job:
    found = slurm.jobs([job])[job]
    assert found.state is JobState.RUNNING
    return found


def pinned(
    slurm: Slurm,
    minicluster: Minicluster,
    nodes: tuple[str, ...],
    slots: tuple[int, ...] | None,
    *options: str,
    wrap: str = "",
) -> tuple[int, Job]:
    """A job that runs there, and its record before it was pinned."""
    job = minicluster.submit(LATER, *(options or ("--gres=gpu:2",)), wrap=wrap or "sleep 300")
    before = slurm.jobs([job])[job]
    result = one(slurm, Pin(job, nodes=nodes, slots=slots, original=before.request))
    assert result.outcome is Outcome.DONE, result.said
    minicluster.wait_state(job, "RUNNING")
    if wrap:
        time.sleep(1.0)  # the shell has set its traps
    return job, before


def free(slurm: Slurm, job: int) -> Job:
    """Its record once it waits again, and nothing of it is left; in the second after that it may be started."""
    deadline = time.monotonic() + 40
    while not (found := slurm.jobs([job])[job]).pending:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    while int(slurm.snapshot().taken) <= found.submit:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def pin(slurm: Slurm, waits: Job, before: Job, nodes: tuple[str, ...], slots: tuple[int, ...] | None) -> EditResult:
    return one(slurm, Pin(waits.id, nodes=nodes, slots=slots, original=before.request, seen=waits))
