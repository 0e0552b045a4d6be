"""P5: nobody waits much longer than without pald, no lease runs out while pald lives, and nobody loses his turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.fuzz.history import (
    Declined,
    Ended,
    Event,
    Name,
    Record,
    Requeued,
    Started,
    Stopped,
    Submitted,
    Updated,
    UserDid,
)
from tests.fuzz.judge.facts import ADMIN, Facts, Verdict, changed

CALM_S = 30.0
LONGEST_RUN_S = 120.0  # of those that are drawn
DEAD_S = 180.0  # until the dead man's timer has undone all, or pald is back
TROUBLE_S = 30.0
LEASE_S = 600.0  # the longest: a pald that is started anew in shadow gives none back; the dead man's timer does
REQUEUED_S = 130.0
OVERTAKES_S = 10.0  # a pass of Slurm's


def leases_are_kept(facts: Facts) -> Iterator[Verdict]:
    """`begins`: of each waiting job that waits for us, until when."""
    if facts.history.setting["edits_per_s"] != "20" or facts.history.setting["actuator"] == "shadow":
        return
    begins: dict[Name, float] = {}
    for event in facts.events:
        for name in [n for n, begin in begins.items() if begin + 1.0 < event.at]:
            begin = begins.pop(name)
            if facts.well(begin - CALM_S, begin + 1.0) and facts.looked("", begin - CALM_S, begin) > 3:
                yield Verdict("P5", "lease-ran-out", begin, name, "its lease ran out while pald was well")
        for name in _touched(event, begins):
            begins.pop(name, None)
        leased = [event.record] if isinstance(event, Submitted) else []
        if isinstance(event, Updated) and event.pald != ADMIN:
            leased = [record for record in event.after if record.state == "PENDING"]
        for record in leased:
            _waits(facts, begins, record, event.at)


def _touched(event: Event, begins: Mapping[Name, float]) -> set[Name]:
    """Whose wait is over, or begins anew. Of an array, records come and go: all of them are told."""
    if isinstance(event, Updated):
        return {record.job for record in (*event.before, *event.after)}
    if isinstance(event, Started):
        return {event.record.job, (event.record.job[0], None)}
    if isinstance(event, Ended | Requeued):
        return {event.job}
    return {name for name in begins if isinstance(event, UserDid) and name[0] == event.line}


def _waits(facts: Facts, begins: dict[Name, float], record: Record, at: float) -> None:
    own = facts.own_begin(record, at)
    if record.restarts and record.begin <= record.submit + REQUEUED_S:
        return  # for so long Slurm itself keeps a job that was requeued
    if record.marked and record.begin > at + 1.0 and not record.held and not record.waits and own is None:
        begins[record.job] = record.begin


def a_bounded_delay(facts: Facts) -> Iterator[Verdict]:
    h = facts.history
    for name, start in facts.first_start.items():
        alone = h.alone.get(name)
        if alone is not None and (late := start.at - alone) > bound(facts):
            said = f"{late:.0f} s later than without pald; {bound(facts):.0f} is the most"
            yield Verdict("P5", "late", start.at, name, said)


def bound(facts: Facts) -> float:
    """Two of the longest runs, as another order of jobs may cost, and what each trouble may."""
    left = {"shadow": LEASE_S} if facts.history.setting["deadman"] == "no" else {}
    wrong = sum(min(t.until - t.at, left.get(t.what, DEAD_S)) + TROUBLE_S for t in facts.troubles)
    # Who is moved begins anew here, and others wait for that run.
    anew = sum(LONGEST_RUN_S for e in facts.events if isinstance(e, Stopped) and e.by)
    return 2 * LONGEST_RUN_S + wrong + anew


def alike_in_order(facts: Facts) -> Iterator[Verdict]:
    """Where nothing goes wrong, of two jobs that ask for the same the first one starts first."""
    if facts.history.setting["edits_per_s"] != "20":
        return  # leases run out there: no budget keeps them
    if facts.history.setting["entitlement"]:
        return  # owed.py judges these
    if any(isinstance(event, Stopped) for event in facts.events):
        return
    if facts.troubles or facts.nodes or any(event.what != "release" for event in facts.did):
        return
    options, submitted = facts.history.options, facts.submitted
    # A tag is worth what its user's jobs have shown: one of another user may take what a job declines.
    whose = facts.history.users if facts.history.setting["hints"] == "forged" else dict.fromkeys(options, "")
    starts = [(name, start) for name, start in facts.first_start.items() if name[1] is None]
    declined: dict[Name, float] = {}
    for event in facts.events:
        if isinstance(event, Declined):
            declined.setdefault(event.job, event.at)
    for name, start in starts:
        came = facts.place[id(submitted[name[0]])]  # lines of a script need not be in order of time
        for later, its in starts:
            same = options[name[0]] == options[later[0]] and whose[name[0]] == whose[later[0]]
            after = facts.place[id(submitted[later[0]])] > came
            if name in declined and declined[name] <= its.at:
                continue  # whether it may is waiting.py's matter
            if same and after and "-d" not in options[name[0]] and its.at < start.at - OVERTAKES_S:
                said = f"job {later[0]}, which asks for the same, started {start.at - its.at:.0f} s sooner"
                yield Verdict("P5", "overtaken", start.at, name, said)


def turns_are_kept(facts: Facts) -> Iterator[Verdict]:
    """Whose pin is taken back is not leased again while jobs behind it wait in Slurm's queue: they would pass it."""
    if facts.history.setting["entitlement"]:
        return  # another order than Slurm's
    for update in facts.ours:
        if update.nodes != "" or update.begin is None or update.begin < update.at + 1.0:
            continue
        queue = _queue(facts, update.content_n)
        for was, now in changed(update):
            if not was.required or now.restarts or facts.own_begin(now, update.at, update.looked_n) is not None:
                continue  # who was requeued waits by Slurm's own word
            for other in queue.values():
                free = not (other.required or other.reservation or other.held or other.waits)
                asks = other.per_node or other.per_job or other.per_task
                if free and asks and other.begin <= update.content and _behind(facts, other, was):
                    said = f"leased again with its pin taken back, and job {other.job[0]} waits behind it for Slurm"
                    yield Verdict("P5", "turn-lost", update.at, now.job, said)
                    break


def _behind(facts: Facts, other: Record, job: Record) -> bool:
    shared = set(other.partition.split(",")) & set(job.partition.split(","))
    came = facts.place[id(facts.submitted[other.job[0]])] > facts.place[id(facts.submitted[job.job[0]])]
    return bool(shared) and came


def _queue(facts: Facts, n: int) -> dict[int, Record]:
    """Who waited when so much had happened, by number."""
    queue: dict[int, Record] = {}
    for event in facts.events[:n]:
        match event:
            case Submitted() | Requeued():
                queue[event.record.number] = event.record
            case Updated() | UserDid():
                queue |= {record.number: record for record in event.after if record.state == "PENDING"}
            case Started():
                queue.pop(event.record.number, None)
            case Ended():
                queue = {number: record for number, record in queue.items() if record.job != event.job}
    return queue


RULES = (leases_are_kept, a_bounded_delay, alike_in_order, turns_are_kept)
