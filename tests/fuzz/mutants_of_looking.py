"""Mutants of what pald sees, believes and plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pal_slurm.daemon.cycle as cycle
import pal_slurm.daemon.leases.begins as begins
import pal_slurm.daemon.past as past
import pal_slurm.daemon.round as rounds
import pal_slurm.daemon.starts as starts
import pal_slurm.sim.slurm.jobs as sim_jobs
import pal_slurm.slurm.records as records
import pal_slurm.store.scores as scores
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.guard import Permit
from pal_slurm.model import Job, Lease, Reason, Waits
from pal_slurm.policy.order.slurm import SlurmOrder
from pal_slurm.policy.patience.earlier_finish import EarlierFinish
from pal_slurm.policy.seams import Wait
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.store import Ledger
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


def _read_otherwise(**facts: Any) -> Patches:
    """Records as Slurm tells them, but for these facts."""
    to_job = was(sim_jobs, "to_job")

    def other(*words: Any) -> Job:
        job: Job = to_job(*words)
        return replace(job, **facts)

    return [(sim_jobs, "to_job", other)]


@mutant("what a user edited since the snapshot is not noticed before an update")
def no_reread() -> Patches:
    return [(Job, "said_alike", lambda self, other: True)]


@mutant("the plan takes every GPU for free, and the guard permits everything")
def guard_always_yes() -> Patches:
    plan = was(cycle, "plan")

    def blind(snapshot: Any, **words: Any) -> Any:
        seen = replace(snapshot.cluster, gpu_free=snapshot.cluster.gpu_exists.copy())
        return plan(replace(snapshot, cluster=seen), **words)

    def yes(decisions: Sequence[Any], *words: Any) -> list[Any]:
        return [Permit(decision) for decision in decisions]

    return [(cycle, "plan", blind), (starts, "check", yes)]


@mutant("jobs without our mark are taken for leased ones that ran out")
def foreign_job_edited() -> Patches:
    to_job = was(sim_jobs, "to_job")

    def marked(*words: Any) -> Job:
        job: Job = to_job(*words)
        return job if job.lease is not None else replace(job, lease=Lease(0, job.request))

    return [(sim_jobs, "to_job", marked)]


@mutant("pal:off is not read")
def pal_off_ignored() -> Patches:
    hint = was(records, "_hint")  # not what it keeps of texts that were read before
    return [(records, "_hint", lambda comment: replace(hint(comment), off=False))]


@mutant("a user's own nodes are not known as his: the mark does not say so")
def own_nodelist_overwritten() -> Patches:
    read = was(records, "read_mark")

    def unsaid(text: str) -> Lease | None:
        lease: Lease | None = read(text)
        return lease and replace(lease, own_nodes=False)

    return [(records, "read_mark", unsaid)]


@mutant("a later StartTime of a user is not told from a lease (issue Mend, 3)")
def later_begin_overridden() -> Patches:
    return [(cycle, "told", lambda snapshot, *rest: snapshot)]


@mutant("--begin of the submission is not read in the mark")
def own_begin_forgotten() -> Patches:
    read = was(records, "read_mark")

    def unsaid(text: str) -> Lease | None:
        lease: Lease | None = read(text)
        return lease and replace(lease, not_before=None)

    return [(records, "read_mark", unsaid)]


@mutant("an unmet dependency is not seen (a fault of the first pald)")
def dependency_ignored() -> Patches:
    return _read_otherwise(dependency="")


@mutant("%N of an array is not seen (a fault of the first pald)")
def array_limit_ignored() -> Patches:
    return _read_otherwise(array_limit=None)


@mutant("nodes that a user excludes are not seen")
def excludes_ignored() -> Patches:
    return _read_otherwise(excluded_nodes="")


@mutant("a job that is held is planned like any other")
def hold_ignored() -> Patches:
    to_job = was(sim_jobs, "to_job")

    def other(*words: Any) -> Job:
        job: Job = to_job(*words)
        return replace(job, why=Waits.UNSEEN) if job.why is Waits.HELD else job

    return [(sim_jobs, "to_job", other)]


@mutant("jobs with --ntasks-per-gpu are leased: any edit costs them tasks (issue Mend, 5)")
def recounted_jobs_leased() -> Patches:
    lease = Leasing.__call__

    def all_of_them(self: Leasing, job: Any, now: float) -> None:
        recounts, job.recounts = job.recounts, False
        lease(self, job, now)
        job.recounts = recounts

    return [(Leasing, "__call__", all_of_them)]


@mutant("scores that no GPU has, and old ones, are believed")
def absurd_scores_believed() -> Patches:
    return [(scores, "_trusted", lambda score, measured_at, now, stale: score == score)]


@mutant("the canary is ignored")
def canary_ignored() -> Patches:
    return [(cycle, "outside", lambda pending, config: frozenset())]


@mutant("a pause is ignored")
def pause_ignored() -> Patches:
    return [(cycle, "paused", lambda config, switches: None)]


@mutant("shadow writes")
def shadow_writes() -> Patches:
    return [(cycle, "CycleReport", lambda shadow: CycleReport())]


@mutant("reconcile finds what is to be undone, and nobody does it")
def undo_skipped() -> Patches:
    return [(past.Past, "undos", lambda self, *words: [])]


@mutant("pins that nobody watches, of requeued jobs too, are left (a fault of the first pald)")
def orphans_left() -> Patches:
    return [(past, "orphans", lambda *words: iter(()))]


@mutant("GPUs of pins that have not started yet count as free")
def pins_not_counted() -> Patches:
    return [(rounds, "expected", lambda fates: {})]


@mutant("an operation that was open when pald died is forgotten")
def ledger_not_read() -> Patches:
    return [(Ledger, "watched", lambda self: [])]


@mutant("who came last goes first")
def newest_first() -> Patches:
    def key(self: SlurmOrder, job: Job, progress: object) -> tuple[float, ...]:
        return (job.priority, -job.submit, -job.id)

    return [(SlurmOrder, "key", key)]


@mutant("whoever is offered something declines it, for ever")
def patience_without_end() -> Patches:
    return [(EarlierFinish, "waits", lambda self, job, offer: Wait(Reason.BETTER_GPUS_SOON, 1e9))]


@mutant("every begin time counts as the user's")
def every_begin_is_theirs() -> Patches:
    def moved(snapshot: Any, *rest: Any) -> Any:
        return begins._moved(snapshot, {job.id for job in snapshot.pending})

    return [(cycle, "told", moved)]


@mutant("slurmctld's clock is not compared with our host's")
def clocks_not_compared() -> Patches:
    return [(cycle, "by_slurms_clock", lambda snapshot, *rest: snapshot)]


@mutant("the last task of an array is not counted once it was let go: it has the array's record")
def last_task_not_counted() -> Patches:
    def let_go(job: Job, now: float) -> bool:
        return not job.array_tasks and 0 < (job.eligible or 0) <= now

    return [(Job, "task_let_go", let_go)]
