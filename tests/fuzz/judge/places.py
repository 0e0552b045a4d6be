"""P4: a pin asks for what is there; one that does not start is taken back. P7: absurd scores place as none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.fuzz.history import Ended, Event, Name, Requeued, Started, Updated
from tests.fuzz.judge.facts import Facts, Pin, Verdict, changed, hosts, meant

STUCK_S = 110.0  # two passes of either scheduler, a minute for one that is never looked at, and a few cycles

AWAY_S = 18.0  # a few cycles


def slots_of(gres: Mapping[str, str]) -> frozenset[int]:
    return frozenset(int(n) for text in gres.values() for n in re.findall(r"gpu:g([0-9]+)", text))


def parts_of(gres: Mapping[str, str]) -> frozenset[int]:
    """GPUs of which a part is asked for."""
    return frozenset(int(n) for text in gres.values() for n in re.findall(r"shard:g([0-9]+)", text))


def nothing_taken_is_asked_for(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        if not update.nodes or update.fate == "REFUSED":
            continue
        nodes, slots, parts = hosts(update.nodes), slots_of(update.gres), parts_of(update.gres)
        job = changed(update)[0][1].job if changed(update) else None
        for stay in facts.stays:
            # What had begun before the snapshot was true, and had not ended when the pin arrived.
            taken = stay.start < update.content and stay.end > update.at and stay.node in nodes and stay.job != job
            both = (slots & (stay.slots | stay.shared)) | (parts & stay.slots)
            if taken and both:
                said = f"{update.nodes} g{sorted(both)}: job {stay.job[0]} holds it since {stay.start:.0f}"
                yield Verdict("P4", "taken", update.at, job, said)
        for down in _down(facts, update.content):
            if down in nodes and down in _down(facts, update.at):
                yield Verdict("P4", "node-away", update.at, job, f"{down} can't start jobs")


def limits_of_arrays(facts: Facts) -> Iterator[Verdict]:
    """No more tasks are told to start than %N lets run."""
    for update in facts.ours:
        for record in (r for r in update.before if update.nodes and meant(update.target, r)):
            line = record.job[0]
            most = _limit(facts.history.options[line])
            runs = {s.job for s in facts.stays if s.job[0] == line and s.start < update.content and s.end > update.at}
            # Of the same batch too: those were told before it.
            pins = [p for p in facts.pins if p.job[0] == line and p.until > update.at]
            waits = {p.job for p in pins if p.since < update.content or _just_told(facts, p.update, update)}
            if most and len((runs | waits) - {record.job}) >= most:
                yield Verdict("P4", "array-limit", update.at, record.job, f"{len(runs | waits)} of %{most} run or will")


def _just_told(facts: Facts, other: Updated, update: Updated) -> bool:
    """On the strength of the same look, before it."""
    return other.asked == update.asked and facts.place[id(other)] < facts.place[id(update)]


def _limit(options: tuple[str, ...]) -> int:
    found = re.search(r"(?:-a|--array)[ =]\S*%([0-9]+)", " ".join(options))
    return int(found[1]) if found else 0


def _down(facts: Facts, at: float) -> set[str]:
    state: dict[str, str] = {}
    for event in facts.nodes:
        if event.at < at:
            state[event.node] = event.state
    return {node for node, said in state.items() if said}


def nothing_is_promised_twice(facts: Facts) -> Iterator[Verdict]:
    """Two pins that wait at once name no GPU twice."""
    pins = sorted(facts.pins, key=lambda pin: pin.since)
    for i, pin in enumerate(pins):
        for other in pins[i + 1 :]:
            if other.since >= pin.until or other.job == pin.job or other.update.content < pin.since:
                continue
            mine, theirs = slots_of(pin.update.gres), slots_of(other.update.gres)
            both = (mine & (theirs | parts_of(other.update.gres))) | (parts_of(pin.update.gres) & theirs)
            if both and hosts(pin.update.nodes or "") & hosts(other.update.nodes or "") and _full(pin, other):
                said = f"{other.update.nodes} g{sorted(both)} is job {pin.job[0]}'s, which waits for it"
                yield Verdict("P4", "promised-twice", other.since, other.job, said)


def _full(*pins: Pin) -> bool:
    return all(pin.update.fate in ("WHOLE", "TWICE") for pin in pins)


def no_pin_is_stuck(facts: Facts) -> Iterator[Verdict]:
    for pin in facts.pins:
        if pin.until - pin.since > STUCK_S:
            last = pin.since
            # Somewhere in it pald was well for so long, and left it.
            while last + STUCK_S <= pin.until:
                if facts.well(last, last + STUCK_S) and facts.looked("", last, last + STUCK_S) > 5:
                    said = f"{pin.update.nodes} since {pin.since:.0f}, not started and not taken back"
                    yield Verdict("P4", "stuck", last + STUCK_S, pin.job, said)
                    break
                last += 10.0


def no_pin_waits_for_a_node_that_is_away(facts: Facts) -> Iterator[Verdict]:
    for pin in facts.pins:
        for event in facts.nodes:
            if not event.state or event.node not in hosts(pin.update.nodes or "") or event.at >= pin.until:
                continue
            since = max(event.at, pin.since)
            until = max(since + AWAY_S, facts.seen_by(since))
            back = (e.at for e in facts.nodes if e.node == event.node and e.at > event.at)
            if until < min(pin.until, next(back, pin.until)) and facts.well(since - 1.0, until):
                yield Verdict("P4", "away", until, pin.job, f"pinned to {event.node}, which is {event.state}")


def no_pin_outlives_its_run(facts: Facts) -> Iterator[Verdict]:
    """A job that was requeued waits for the nodes of its last run no longer than pald needs to see it."""
    for number, event in enumerate(facts.events):
        if not isinstance(event, Requeued):
            continue
        later = next((e for e in facts.events[number + 1 :] if _about(e, event.job)), None)
        named = any(True for _ in facts.said(event.job[0], "edit"))
        if named or event.record.required == facts.submitted[event.job[0]].record.required:
            continue
        until, due = facts.history.ended if later is None else later.at, max(event.at + AWAY_S, facts.seen_by(event.at))
        if until > due and facts.well(event.at - 1.0, due):
            said = f"was requeued, and is pinned to {event.record.required} as before"
            yield Verdict("P4", "old-pin", due, event.job, said)


def _about(event: Event, job: Name) -> bool:
    """It was updated, runs or is gone."""
    if isinstance(event, Updated):
        return any(record.job == job for record in event.after)
    return (isinstance(event, Started) and event.record.job == job) or (isinstance(event, Ended) and event.job == job)


def a_start_is_whole(facts: Facts) -> Iterator[Verdict]:
    """What stands when a job starts is a whole pin, or none: of a torn one it would get GPUs that nobody chose."""
    torn: dict[object, Updated] = {}
    for event in facts.events:
        if isinstance(event, Updated):
            for _, after in changed(event):
                torn.pop(after.job, None)
                if event.nodes and event.fate == "HALF":
                    torn[after.job] = event
        elif isinstance(event, Started) and event.record.job in torn:
            update = torn.pop(event.record.job)
            if event.record.required and facts.well(update.at + 1.0, event.at) and event.at - update.at > 15.0:
                said = f"half a pin to {update.nodes} stood since {update.at:.0f}"
                yield Verdict("P4", "torn", event.at, event.record.job, said)


def absurd_scores_place_as_none(facts: Facts) -> Iterator[Verdict]:
    neutral = facts.history.neutral
    for name, start in facts.first_start.items():
        if neutral is not None and neutral.get(name) != start.parts:
            got, were = (_told(parts) for parts in (start.parts, neutral.get(name, ())))
            yield Verdict("P7", "not-neutral", start.at, name, f"on {got}, and without any score on {were}")


def _told(parts: object) -> str:
    return "; ".join(f"{p.node} {sorted(p.slots)}" for p in parts) or "nothing"  # type: ignore[attr-defined]


RULES = (
    limits_of_arrays,
    nothing_taken_is_asked_for,
    nothing_is_promised_twice,
    no_pin_is_stuck,
    no_pin_waits_for_a_node_that_is_away,
    no_pin_outlives_its_run,
    a_start_is_whole,
    absurd_scores_place_as_none,
)
