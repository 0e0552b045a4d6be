"""P10: a running job is moved with its user's word, asked first, seldom, and runs again. P2: nobody else's is touched.

What the bench's pal.yaml says of moves (palds.py) stands here once more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.fuzz.history import Ended, Name, Record, Signalled, Started, Stopped, Submitted, Updated, UserDid
from tests.fuzz.judge.facts import ADMIN, Facts, Verdict, meant

FIRST_S, LAST_S, PER_JOB = 10.0, 20.0, 2
SLACK_S = 2.0  # slurmctld counts in whole seconds
MOST_RESTARTS = 4  # Slurm holds a job at its sixth start
GIVEN_BACK_S = 25.0  # what a nice may need after a start
LOOK_S = 12.0  # a cycle, and a pass of Slurm's
FIRST_PRIORITY = 4_294_901_760  # of all jobs, the first one's: no nice of a user's raises one beyond it
UNASKED = re.compile(r"(?:^| )pal:(?:off|stay)(?: |$)")
ASKED = re.compile(r"(?:^| )pal:move(?:=[0-9]+|=(?:B:)?([A-Z0-9]+)@([0-9]+)(!?))?(?: |$)")


def moved_records(update: Updated) -> Iterator[Record]:
    """Running jobs that it warns, or sends back."""
    if update.requeue or update.signal:
        yield from (r for r in update.before if r.state == "RUNNING" and meant(update.target, r))


def _begun(facts: Facts, job: Name, at: float) -> Started | None:
    """Its run of that moment."""
    return next(
        (e for e in reversed(facts.events) if isinstance(e, Started) and e.record.job == job and e.at <= at), None
    )


def with_its_users_word(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        for record in moved_records(update):
            comment = record.comment or ""
            said = [e for e in facts.said(record.job[0], "says") if e.at <= update.at]
            if said and not facts.before(said[-1], update.content_n):
                continue  # it can't have been known when this was decided
            if not ASKED.search(comment) or UNASKED.search(comment):
                yield Verdict("P2", "no-consent", update.at, record.job, f"its user said {comment!r}, and it is moved")
            if "--no-requeue" in facts.history.options[record.job[0]] or record.held:
                yield Verdict("P2", "no-consent", update.at, record.job, "it can't be requeued, or is held")
            if facts.history.setting["actuator"] != "move":
                yield Verdict("P2", "moves-off", update.at, record.job, "moves are switched off")


def it_is_asked_first(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        for record in moved_records(update) if update.requeue else ():
            word, run = ASKED.search(record.comment or ""), _begun(facts, record.job, update.at)
            if word is None or word[1] is None or run is None or any(True for _ in facts.said(record.job[0], "says")):
                continue
            if not word[3]:
                yield Verdict("P10", "not-left", update.at, record.job, "it did not answer, and is requeued")
            asked = [at for at, signal in _asked(facts, record.job) if run.at <= at <= update.at and signal == word[1]]
            if not any(at <= update.at - int(word[2]) + SLACK_S for at in asked):
                said = f"requeued without its {word[2]} s after {word[1]}"
                yield Verdict("P10", "not-asked", update.at, record.job, said)


def _signals(facts: Facts, job: Name) -> list[Signalled]:
    return [e for e in facts.events if isinstance(e, Signalled) and e.job == job]


def _asked(facts: Facts, job: Name) -> list[tuple[float, str]]:
    """Signals that came, or of which Slurm said so: it tells no more of one, and where it was lost nobody can know."""
    said = (u for u in facts.ours if u.signal and not u.said and any(before.job == job for before in u.before))
    return [(s.at, s.signal) for s in _signals(facts, job)] + [(u.at, u.signal) for u in said]


def asked_once(facts: Facts) -> Iterator[Verdict]:
    """Of each run."""
    runs: dict[Name, float] = {}
    for event in facts.events:
        if isinstance(event, Started):
            runs.pop(event.record.job, None)
        elif isinstance(event, Signalled):
            if event.job in runs:
                said = f"it was asked to save at {runs[event.job]:.0f}, and again"
                yield Verdict("P10", "asked-twice", event.at, event.job, said)
            runs[event.job] = event.at


def neither_at_first_nor_at_last(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        for record in moved_records(update):
            run = _begun(facts, record.job, update.at)
            if run is None or (update.requeue and any(s.at >= run.at for s in _signals(facts, record.job))):
                continue  # its move began with the signal
            left = run.at + 60.0 * (record.limit or 10**6) - update.at
            if update.at < run.at + FIRST_S - SLACK_S or left < LAST_S - SLACK_S:
                said = f"{update.at - run.at:.0f} s after its start, {left:.0f} s before its limit"
                yield Verdict("P10", "too-early-or-late", update.at, record.job, said)


def seldom(facts: Facts) -> Iterator[Verdict]:
    if any(t.what == "dbgone" for t in facts.troubles):
        return  # who knows of no move counts none
    moved: dict[Name, set[float]] = {}
    for update in facts.ours:
        for record in moved_records(update):
            run = _begun(facts, record.job, update.at)
            runs = moved.setdefault(record.job, set())
            runs.add(-1.0 if run is None else run.at)
            if len(runs) > PER_JOB:
                yield Verdict("P10", "too-often", update.at, record.job, f"moved {len(runs)} times, at most {PER_JOB}")
            if record.restarts >= MOST_RESTARTS:
                yield Verdict("P10", "near-limit", update.at, record.job, f"requeued after {record.restarts} restarts")


def it_runs_again(facts: Facts) -> Iterator[Verdict]:
    """With as many GPUs; and Slurm itself refuses no start of it."""
    stopped: dict[Name, Stopped] = {}
    moved: set[Name] = set()
    for event in facts.events:
        if isinstance(event, Stopped) and event.by and event.by != ADMIN:
            stopped[event.job] = event
            moved.add(event.job)
        elif isinstance(event, Started) and event.record.job in moved:
            stopped.pop(event.record.job, None)
            yield from _as_before(facts, event)
        elif isinstance(event, Ended):
            stopped.pop(event.job, None)
            if event.job in moved and event.state == "FAILED" and not _signals(facts, event.job):
                yield Verdict("P10", "failed", event.at, event.job, "its start was refused after it was requeued")
    held = {e.line for e in facts.did if e.what == "hold"}
    for job, stop in stopped.items():
        if not facts.history.restless and job[0] not in held:
            yield Verdict(
                "P10", "not-again", facts.history.ended, job, f"requeued at {stop.at:.0f}, never started again"
            )


def _as_before(facts: Facts, start: Started) -> Iterator[Verdict]:
    first = facts.first_start[start.record.job]
    had, has = (sum(len(part.slots | part.shared) for part in event.parts) for event in (first, start))
    if had != has and len(first.parts) == len(start.parts) and not list(facts.said(start.record.job[0], "edit")):
        yield Verdict("P10", "other-gpus", start.at, start.record.job, f"{has} GPUs; {had} before it was moved")


def its_nice_is_given_back(facts: Facts) -> Iterator[Verdict]:
    for event in facts.events:
        if not isinstance(event, Ended) or not event.ran:
            continue
        run, nice = _begun(facts, event.job, event.at), facts.submitted[event.job[0]].record.nice
        kept = run is not None and event.nice != nice and event.at > run.at + GIVEN_BACK_S
        if kept and run is not None and facts.well(run.at, run.at + GIVEN_BACK_S):
            yield Verdict("P5", "nice-kept", event.at, event.job, f"its nice is {event.nice}, its user's {nice}")


def no_more_priority_than_it_had(facts: Facts) -> Iterator[Verdict]:
    """Ahead of the queue is what was moved: who holds it meanwhile, asks for more or writes over its nice, waits."""
    for start in facts.events:
        if not isinstance(start, Started) or not start.record.restarts:
            continue
        job, own = start.record.job, facts.submitted[start.record.job[0]].record
        raised = start.record.nice < own.nice or start.record.priority + start.record.nice > FIRST_PRIORITY
        stops = [e.at for e in facts.events if isinstance(e, Stopped) and e.by and e.job == job and e.at <= start.at]
        for deed in facts.said(job[0]) if raised and stops else ():
            seen = facts.seen_by(deed.at)
            if _gains(deed, own) and stops[-1] <= deed.at and seen < start.at and facts.well(stops[-1], start.at):
                said = f"its user did {deed.what} at {deed.at:.1f}; it starts with nice {start.record.nice}"
                yield Verdict("P5", "ahead-by-a-move", start.at, job, f"{said}, priority {start.record.priority}")


def _gains(deed: UserDid, own: Record) -> bool:
    limits = [int(word.partition("=")[2]) for word in deed.words if word.startswith("time_limit_min=")]
    more = deed.what == "edit" and own.limit is not None and any(limit > own.limit for limit in limits)
    return deed.what in ("hold", "lower") or more


def nobody_waits_for_who_was_only_asked(facts: Facts) -> Iterator[Verdict]:
    """GPUs on which a job could start are not kept for one that was asked to save, and may not answer."""
    stops = [e.at for e in facts.events if isinstance(e, Stopped)]
    if facts.history.setting["scores"] != "none" or facts.nodes:  # else patience is a cause to wait, too
        return
    for start in facts.first_start.values():
        came = facts.submitted[start.record.job[0]]
        if start.record.job[1] is not None or len(start.parts) != 1 or list(facts.said(start.record.job[0])):
            continue
        for asked in [e for e in facts.events if isinstance(e, Signalled)]:
            over = (e.at for e in facts.events if isinstance(e, Ended | Stopped) and e.job == asked.job)
            since = max(came.at, asked.at) + LOOK_S
            until = min(start.at, next((at for at in over if at >= asked.at), facts.history.ended))
            if until - since < LOOK_S or any(since - 2 * LOOK_S < at < until for at in stops):
                continue
            if _could_start(facts, start, came, since, until) and facts.well(since, until):
                said = f"job {asked.job[0]} was asked to save at {asked.at:.1f}, and this one waits beside free GPUs"
                yield Verdict("P5", "kept-for-the-silent", start.at, start.record.job, said)


def _could_start(facts: Facts, start: Started, came: Submitted, since: float, until: float) -> bool:
    """It is the first that waits, and where it then starts was free all that time."""
    ahead = [s.record.job for s in facts.submitted.values() if s.at <= came.at and s is not came]
    if any(job not in facts.first_start or facts.first_start[job].at > since for job in ahead):
        return False
    if came.record.held or came.record.waits or facts.own_begin(start.record, since) is not None:
        return False
    (part,) = start.parts
    mine = part.slots | part.shared
    return not any(
        h.node == part.node and (h.slots | h.shared) & mine and h.start < until and h.end > since
        for h in facts.stays
        if h.job != start.record.job
    )


RULES = (
    with_its_users_word, it_is_asked_first, asked_once, neither_at_first_nor_at_last, seldom, it_runs_again,
    its_nice_is_given_back, no_more_priority_than_it_had, nobody_waits_for_who_was_only_asked,
)  # fmt: skip
