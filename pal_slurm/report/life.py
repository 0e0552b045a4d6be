"""The life of one job as far as we had a hand in it. In: the store. Out: sentences, records."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pal_slurm.model import (
    EditKind,
    Exclude,
    Fence,
    Intent,
    Move,
    NotBegun,
    Outcome,
    Pin,
    Placement,
    Renice,
    Warn,
    until,
)
from pal_slurm.report.moves import move_sentences
from pal_slurm.report.text import clock, fold, shown
from pal_slurm.report.why import sentences, still_true, where
from pal_slurm.store import DecisionRepo, JobOutcome, Ledger, MoveRepo, OutcomeRepo, Pause, Store, Why

_clock = partial(clock, form="%Y-%m-%d %H:%M:%S")
_MANY = 12  # edits that are told one by one; of more, the last ones


@dataclass(frozen=True, slots=True)
class Life:
    decided: tuple[Why, ...]
    edits: tuple[Intent, ...]
    got: tuple[JobOutcome, ...]
    refused: tuple[NotBegun, ...] = ()  # before the first edit
    moves: tuple[Move, ...] = ()
    cut: bool = False  # there were more edits, or starts, than were read

    @property
    def empty(self) -> bool:
        return not (self.decided or self.edits or self.got or self.refused or self.moves)

    def plain(self) -> dict[str, object]:
        """For JSON."""
        books: dict[str, object] = {"decisions": self.decided, "edits": self.edits, "outcomes": self.got}
        return books | {"refused": self.refused, "moves": self.moves}


def life_of(store: Store, cluster: str, job: int, task: int | None = None, most: int | None = None) -> Life:
    """A job id may come round again: the newest job of that id only. A task's own id leads to its array's story.

    `most`: that many edits, starts and decisions of an array's tasks are told at most, the newest: it has thousands.
    """
    every = still_true(DecisionRepo(store, cluster).of_job(job))
    decided = [w for w in every if task in (None, w.decision.task)]
    of_array = [] if decided else [w for w in every if w.tasks and w.decision.task is None]
    asked = (task, None) if of_array else (task,)  # what was decided about all that wait holds for each of them
    edits = [i for i in Ledger(store, cluster).of_job(job, task, most) if task is None or i.edit.task in asked]
    decided += of_array
    got = OutcomeRepo(store, cluster).of_array(job, task, most)
    refused = Ledger(store, cluster).refused(job)
    submits = {w.submit for w in decided} | {i.submit for i in edits} | {o.submit for o in got}
    own = {o.job for o in got} - {job} if task is not None else set()
    moves = [move for one in (job, *sorted(own)) for move in MoveRepo(store, cluster).of_job(one)]
    newest = max(submits | {r.submit for r in refused} | {m.submit for m in moves}, default=0)
    if array := next((o.ref for o in got if o.submit == newest and o.job == job != o.ref.id), None):
        return life_of(store, cluster, array.id, array.task, most)
    return Life(
        tuple(w for w in decided if w.submit == newest)[:most],
        tuple(i for i in edits if i.submit == newest),
        tuple(o for o in got if o.submit == newest),
        tuple(r for r in refused if r.submit == newest),
        tuple(m for m in moves if m.submit == newest),
        cut=most is not None and most in (len(edits), len(got)),
    )


def of_himself(life: Life, private: Collection[str]) -> Life:
    """Without what Slurm's PrivateData keeps from its user: how many jobs of others there are, their ids, free GPUs."""
    decided, edits, moves = life.decided, life.edits, life.moves
    if "jobs" in private:
        decided = tuple(replace(why, ahead=None, decision=replace(why.decision, rank=0)) for why in decided)
        edits = tuple(replace(edit, decision=None, move=None) for edit in edits)
        moves = tuple(replace(move, partner=None, further=(), ring=(), makes_room_for=None) for move in moves)
    if "nodes" in private:
        decided = tuple(replace(why, free_gpus=None) for why in decided)
    return replace(life, decided=decided, edits=edits, moves=moves)


def owner(life: Life) -> str:
    """Whose job it was; empty: nobody wrote it down."""
    return next(filter(None, (*(got.user for got in life.got), *(why.user for why in life.decided))), "")


def pause_sentence(pause: Pause) -> str:
    return f"pald is paused {shown(pause.told)}. Jobs that wait start as Slurm starts them."


def life_sentences(life: Life) -> Iterator[str]:
    for why in life.decided[:_MANY]:
        yield f"At {_clock(why.decided_at)} (last decision):"
        for sentence in sentences(why):
            yield f"  {sentence}"
    if len(life.decided) > _MANY:
        yield f"... and {len(life.decided) - _MANY} more array tasks; ask for one with JOBID_TASK."
    edits, more = life.edits[-_MANY:], " or more" if life.cut else ""
    if edits:
        older = len(life.edits) - len(edits)
        yield "What was written to Slurm" + (
            f" (the last {len(edits)} of {older + len(edits)}{more} edits):" if older else ":"
        )
        for intent in edits:
            yield f"  {edit_words(intent)}"
    for refused in life.refused[-_MANY:]:
        yield f"{_clock(refused.at)} {refused.kind.value}: not begun ({shown(refused.said)})"
    if not (life.decided or edits or life.refused):
        yield "pald decided nothing for it: nothing better than Slurm's own choice could come, or it was none of ours."
    for move in life.moves[-_MANY:]:
        yield from move_sentences(move)
    if len(life.got) > _MANY:
        yield f"... and {len(life.got) - _MANY}{more or ' more'} starts of its tasks; the last ones:"
    for outcome in life.got[-_MANY:]:
        yield from _got(outcome)


_TOLD = {
    EditKind.PIN: "pinned to",
    EditKind.PLAIN: "released as it was",
    EditKind.RENEW: "its lease was renewed",
    EditKind.LEASE: "its lease had run out: leased again",
    EditKind.UNPIN: "its original request was given back",
    EditKind.EXCLUDE: "slower nodes excluded:",
    EditKind.INCLUDE: "its own list of excluded nodes was given back",
    EditKind.WARN: "asked to save",
    EditKind.REQUEUE: "requeued as it was submitted, to wait for us",
    EditKind.FENCE: "others kept from its GPUs by a reservation of",
    EditKind.RENICE: "its nice was given back",
}
_CAME_OUT = {
    None: "and pald does not know yet whether it was carried out",
    Outcome.DONE: "done",
    Outcome.STARTED: "but it was running already",
    Outcome.GONE: "but it was gone",
    Outcome.REFUSED: "but it was not carried out",
    Outcome.PARTIAL: "and taken back",
    Outcome.UNKNOWN: "and slurmctld gave no answer",
}


def edit_words(intent: Intent) -> str:
    """One edit on one line: when, what, and what became of it."""
    edit = intent.edit
    what = _TOLD[edit.kind]
    if isinstance(edit, Pin):
        slots = "" if edit.slots is None else ":" + ",".join(f"g{s}" for s in edit.slots)
        what = f"{what} {'a part of ' if edit.shard else ''}{fold(edit.nodes)}{slots}"
    if isinstance(edit, Exclude):
        what = f"{what} {fold(edit.nodes)}"
    if isinstance(edit, Fence):
        what = f"{what} {fold(edit.nodes)} until {_clock(edit.until)}"
    if isinstance(edit, Warn):
        what = f"{what} by SIG{edit.signal} to {'its batch script' if edit.to_script else 'its steps'}"
    if isinstance(edit, Renice):
        what = f"{what} ({edit.nice})"
    if (end := until(edit)) is not None:
        what = f"{what} until {_clock(end)}"
    if intent.cause:
        what = f"{what} ({shown(intent.cause)})"
    task = "" if edit.task is None else f" task {edit.task}"
    said = f" ({shown(intent.said)})" if intent.said else ""
    return f"{_clock(intent.written_at)}{task} {what}: {_CAME_OUT[intent.outcome]}{said}"


def _got(outcome: JobOutcome) -> Iterator[str]:
    got = where(Placement(outcome.nodes, outcome.gpus, exact=False))
    task = "" if outcome.task is None else f"Task {outcome.task}: "
    end = f", ended {_clock(outcome.end)}" if outcome.end else ""
    pinned = {True: ", as pinned", False: ", which is not what was asked for", None: ""}[outcome.as_pinned]
    yield f"{task}It got {got}{pinned}; started {_clock(outcome.start)}{end}."
    if outcome.step_time is not None:
        line = f"  Predicted there: {outcome.step_time:.4g} s/step"
        if outcome.slurm_step_time is not None:
            line += f"; on what Slurm itself would have chosen: {outcome.slurm_step_time:.4g} s/step"
        yield line + "."
