"""What became of what we did. In: watched intents and one snapshot. Out: transitions; the cycle carries them out. Pure.

Everything that an earlier cycle, or an earlier pald that was killed between any two instructions, may have left behind
is judged here by what Slurm shows now, never by what we believe we did (P3, P4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pal_slurm.model import (
    SHARED_LIMITS,
    Cluster,
    EditKind,
    Exclude,
    Intent,
    Job,
    JobRef,
    JobState,
    Outcome,
    Pin,
    Placement,
    Unpin,
    Waits,
)
from pal_slurm.slurm.port import Passes


class Fate(StrEnum):
    STARTED = "started"  # it runs: record what it got, close
    GONE = "gone"  # no such job any more: close
    STANDS = "stands"  # an open intent whose edit is there: it was applied
    NEVER_WAS = "never-was"  # an open intent whose edit is not there: it was not applied
    WAITING = "waiting"  # pinned; Slurm has not had its passes yet: its GPUs count as taken
    UNDO = "undo"  # give the original request back and lease it again
    SURRENDER = "surrender"  # give the original request back and take our hands off
    GOES_ON = "goes-on"  # this step of its operation is done, and another comes after it
    THEIRS = "theirs"  # somebody else edited it since: hands off


# Slurm says that what we asked for can't be had as things are; waiting longer doesn't help.
BAD = (Waits.NEVER, Waits.NODES)
# Not about where the job would run: our pin neither caused it nor can it help; Slurm's own queueing takes over.
NOT_OURS = (Waits.LIMIT, Waits.HELD)
LASTING = (EditKind.PIN, EditKind.EXCLUDE)  # watched until the job runs
PASSES = 2
UNCONSIDERED_S = 60.0  # not looked at for so long although Slurm made its passes: it is not going to be looked at
BEHIND_S = 600.0  # behind a job that can't start, and no backfill pass for so long
MOST_UNDOS = 3


@dataclass(frozen=True, slots=True)
class Transition:
    intent: Intent
    fate: Fate
    job: Job | None
    cause: str = ""


Lost = tuple[Job, Pin]  # a pin that nobody watches; of one that we don't know only its job


@dataclass(frozen=True, slots=True)
class View:
    """What judging needs of the snapshot."""

    jobs: Mapping[int, Job]
    tasks: Mapping[tuple[int, int], Job]  # (array, index) -> the record of a task that has one of its own
    nodes_ok: frozenset[str]
    passes: Passes
    now: float
    undos: Mapping[JobRef, int]  # by the job's own key: how often its pin was taken back before
    parts: bool = True  # two jobs may have one GPU
    room: Mapping[int, Passes] = field(default_factory=dict)  # by intent: since which passes there is room for its pin
    arrays: Mapping[int, Sequence[Job]] = field(default_factory=dict)  # by array: its records that hold several tasks


def judge(intent: Intent, view: View) -> Transition:
    """The fate of an operation at its step."""
    at = _judge_step(intent, view)
    done = at.fate is Fate.STARTED or (at.fate is Fate.STANDS and intent.edit.kind not in LASTING)
    return replace(at, fate=Fate.GOES_ON) if done and not intent.last else at


def _judge_step(intent: Intent, view: View) -> Transition:
    """Each branch names the facts that it rests on."""
    job = find(intent, view)
    if job is None or job.submit != intent.submit or job.state is JobState.OTHER:
        return Transition(intent, Fate.GONE, None)
    if not job.pending:
        return Transition(intent, Fate.STARTED, job)
    if isinstance(intent.edit, Pin):
        return judge_pin(intent, intent.edit, job, view)
    if isinstance(intent.edit, Exclude):
        return judge_exclusion(intent, intent.edit, job)
    if isinstance(intent.edit, Unpin):
        if not settled(intent) and _is_cut_short(intent, intent.edit, job):
            return Transition(intent, Fate.UNDO, job, "an undo that was cut short")
        return Transition(intent, Fate.STANDS, job)
    if intent.edit.kind is EditKind.INCLUDE:
        return Transition(intent, Fate.STANDS if job.excluded is None else Fate.NEVER_WAS, job)
    if settled(intent) or (intent.edit.kind is EditKind.LEASE and job.is_leased(view.now)):
        return Transition(intent, Fate.STANDS, job)
    if intent.edit.kind is EditKind.LEASE:
        return Transition(intent, Fate.NEVER_WAS, job)
    return Transition(intent, Fate.NEVER_WAS if job.is_leased(view.now) else Fate.STANDS, job)


def arrays_of(jobs: Iterable[Job]) -> dict[int, list[Job]]:
    """By array, the records that hold tasks which have none of their own."""
    found: dict[int, list[Job]] = {}
    for job in jobs:
        if job.array_id is not None and job.array_tasks:
            found.setdefault(job.array_id, []).append(job)
    return found


def find(intent: Intent, view: View) -> Job | None:
    """The record that an intent is about; a task has one of its own once it was split off."""
    edit = intent.edit
    if edit.task is None:
        return view.jobs.get(edit.job)
    return view.tasks.get((edit.job, edit.task)) or next(
        (j for j in view.arrays.get(edit.job, ()) if edit.task in j.array_tasks), None
    )


def _is_cut_short(intent: Intent, unpin: Unpin, job: Job) -> bool:
    """Whether something of the pin still stands, or its GPUs are not back. Slots can't be taken back everywhere."""
    nodes = job.pin is not None and (not unpin.nodes or job.asks_for(unpin.nodes, ()))
    slots = bool(job.slots) and (job.shard or intent.outcome is not Outcome.PARTIAL)
    return nodes or slots or not job.gpu_job


def judge_exclusion(intent: Intent, edit: Exclude, job: Job) -> Transition:
    """As long as it waits; once it runs the list means nothing any more."""
    if job.excluded is None or job.excluded.nodes != frozenset(edit.nodes):
        if settled(intent):
            return Transition(intent, Fate.THEIRS, job, f"its excluded nodes are now {job.excluded_nodes or 'none'}")
        return Transition(intent, Fate.NEVER_WAS, job)
    if job.required_nodes:
        return Transition(intent, Fate.UNDO, job, "somebody named its nodes")
    if job.why in NOT_OURS or job.why in BAD or job.why in SHARED_LIMITS:
        return Transition(intent, Fate.UNDO, job, job.reason)
    return Transition(intent, Fate.WAITING if settled(intent) else Fate.STANDS, job)


def judge_pin(intent: Intent, pin: Pin, job: Job, view: View) -> Transition:
    stands = job.asks_for(pin.nodes, pin.slots or (), shard=pin.shard) and job.on_number(len(pin.nodes))
    if not settled(intent):
        if stands and intent.outcome is not Outcome.PARTIAL and not job.is_leased(view.now):
            return Transition(intent, Fate.STANDS, job)
        if not job.required_nodes and job.request == pin.original:
            return Transition(intent, Fate.NEVER_WAS, job)
        if intent.outcome is Outcome.PARTIAL and job.required_nodes and not _is_left(pin, job):
            return Transition(intent, Fate.THEIRS, job, _edited(pin, job))
        if intent.outcome is Outcome.PARTIAL and not job.required_nodes and not job.slots:
            return Transition(intent, Fate.NEVER_WAS, job)  # given back in the cycle that made it
        return Transition(intent, Fate.UNDO, job, "a pin that was cut short")
    if not stands:
        return Transition(intent, Fate.UNDO if _is_left(pin, job) else Fate.THEIRS, job, _edited(pin, job))
    if said := _user_says(intent, pin, job, view):
        return Transition(intent, Fate.UNDO, job, said)
    back = Fate.SURRENDER if view.undos.get(job.key, 0) + 1 >= MOST_UNDOS else Fate.UNDO
    if job.why in NOT_OURS:
        return Transition(intent, Fate.SURRENDER, job, job.reason)
    if job.why in BAD or job.why in SHARED_LIMITS:
        return Transition(intent, back, job, job.reason)
    lost = sorted(set(pin.nodes) - view.nodes_ok)
    if lost:
        return Transition(intent, back, job, f"{', '.join(lost)} can't start jobs any more")
    if not _had_its_passes(intent, job, view):
        return Transition(intent, Fate.WAITING, job)
    # Where there is room Slurm knows of something that we don't: it would be pinned there again and again.
    unseen = job.why is Waits.ROOM and _passed_by(view.room.get(intent.id), view.passes)
    said = f"not started in {PASSES} passes of Slurm's scheduler ({job.reason}{', and there is room' * unseen})"
    return Transition(intent, Fate.SURRENDER if unseen else back, job, said)


def _passed_by(since: Passes | None, now: Passes) -> bool:
    """Whether a pass has looked since then: what was free only a moment ago, none has."""
    return since is not None and (now.main > since.main or now.backfill > since.backfill)


def has_room(intent: Intent, job: Job, cluster: Cluster) -> bool:
    """Whether all that it asks for is free where it is pinned."""
    where = intent.decision.placement if intent.decision is not None else None
    if where is None or job.shape is None or where.shard:
        return False
    many = len(where.nodes)
    for node, slots in zip(where.nodes, where.gpus, strict=True):
        row = cluster.node_index.get(node)
        if row is None:
            return False
        free = cluster.gpu_free[row]
        gpus = bool(free[list(slots)].all()) if where.exact else int(free.sum()) >= len(slots)
        cpus, mem_mb = job.shape.cpus_on_each(many), job.shape.mem_on_each(many)
        if not gpus or cluster.cpus_free[row] < cpus or cluster.mem_free_mb[row] < mem_mb:
            return False
    return True


def _is_left(pin: Pin, job: Job) -> bool:
    """Whether something of a pin stands that somebody has edited since: that is no word of his."""
    slots = pin.slots and job.slots and (job.shard or job.required_nodes)  # what `palctl undo` leaves of old releases
    if slots or job.asks_for(pin.nodes, ()):
        return True
    if pin.original is None:
        return False
    was, now, many = pin.original, job.request, len(pin.nodes)
    number = job.on_number(many) and (was.min_nodes, was.max_nodes) != (now.min_nodes, now.max_nodes)
    return number or (pin.partition == now.partition and was.partition != now.partition)


def _edited(pin: Pin, job: Job) -> str:
    if not job.asks_for(pin.nodes, ()):
        return f"its node list is now {job.required_nodes or 'empty'}"
    if not job.on_number(len(pin.nodes)):
        return f"it asks for {job.request.min_nodes} to {job.request.max_nodes or 'any number of'} nodes now"
    return "it asks for other GPUs now"


def _user_says(intent: Intent, pin: Pin, job: Job, view: View) -> str:
    """What somebody has said since, and the pin does not fit any more."""
    if job.own_begin(view.now) is not None:
        return "somebody gave it a later begin time"
    if pin.shard and job.gpus_limited:
        return "a limit on GPUs binds it that parts of them do not count against"
    if pin.shard and not job.shares:
        return "its user took pal:share back"
    if pin.shard and not view.parts:
        return "no two jobs get one GPU any more"
    together = intent.decision.together if intent.decision is not None else None
    host = view.jobs.get(together.job) if together is not None else None
    if host is not None and not host.pending and not host.shares:
        return f"job {host.id}, which has that GPU, does not say pal:share any more"
    return ""


def _had_its_passes(intent: Intent, job: Job, view: View) -> bool:
    """Slurm's counters say so, and the job's reason shows that a pass looked at it (a pass ends at its queue depth)."""
    main = view.passes.main - intent.passes_main
    backfill = view.passes.backfill - intent.passes_backfill
    if main < 0 or backfill < 0:  # slurmctld was restarted and counts anew
        main, backfill = view.passes.main, view.passes.backfill
    if job.why is Waits.TURN:  # the main pass ends at a job ahead that can't start: only backfill looks beyond it
        return backfill >= PASSES or view.now - intent.written_at > BEHIND_S
    if main < PASSES and backfill < PASSES:
        return False
    considered = job.why not in (Waits.UNSEEN, Waits.BEGIN)
    return considered or view.now - intent.written_at > UNCONSIDERED_S


def settled(intent: Intent) -> bool:
    """Somebody saw what became of it; else this snapshot has to tell."""
    return intent.outcome is Outcome.DONE


def orphans(jobs: Iterable[Job], watched: frozenset[int], now: float) -> Iterator[Job]:
    """Pins that nobody watches: the job ran and was requeued (node loss), or our record of it is lost (P1).

    A pin ends the lease in the same update, so a node list on a job that is still leased is the user's own; unless the
    job ran already: a requeued one gets a begin time from Slurm itself. A part of a GPU is ours without nodes too: who
    bears our mark asked for whole ones.
    """
    for job in jobs:
        ours = job.pin or (job.shard and job.lease)
        if job.pending and job.id not in watched and ours and (job.restarts or not job.is_leased(now)):
            yield job


def expected(transitions: Iterable[Transition]) -> dict[int, Placement]:
    """What pinned jobs that have not started yet will take: the plan must count it as gone."""
    return dict(_pinned(transitions, (Fate.WAITING, Fate.STANDS)))


def given_up(transitions: Iterable[Transition], lost: Iterable[Lost] = ()) -> Iterator[Placement]:
    """Of pins that are taken back now: the next plan has these jobs again, and nobody behind them is to come first.

    `lost`: those that nobody watched.
    """
    transitions = list(transitions)
    left = (t for t in transitions if t.job is not None and t.job.why is Waits.ROOM)  # Slurm is to find room for it
    yield from (where for _, where in _pinned(transitions, (Fate.UNDO,)))
    yield from (where for _, where in _pinned(left, (Fate.SURRENDER,)))
    for job, _ in lost:
        if job.pin is not None and job.slots:
            nodes = tuple(sorted(job.pin.nodes))
            yield Placement(nodes, (job.slots,) * len(nodes), exact=True, shard=job.shard)


def _pinned(transitions: Iterable[Transition], fates: Collection[Fate]) -> Iterator[tuple[int, Placement]]:
    for t in transitions:
        if t.fate in fates and t.job is not None and t.intent.edit.kind is EditKind.PIN:
            decision = t.intent.decision
            if decision is not None and decision.placement is not None:
                yield t.job.id, decision.placement


OUTCOME_OF = {
    Fate.STARTED: Outcome.DONE,
    Fate.STANDS: Outcome.DONE,
    Fate.GOES_ON: Outcome.DONE,
    Fate.GONE: Outcome.GONE,
    Fate.NEVER_WAS: Outcome.REFUSED,
    Fate.THEIRS: Outcome.DONE,
    Fate.UNDO: Outcome.PARTIAL,
    Fate.SURRENDER: Outcome.PARTIAL,
}
