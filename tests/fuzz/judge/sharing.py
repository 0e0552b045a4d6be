"""Two jobs on one GPU. P4: two at most, and none beside one that has it whole. P12: of one owner. P2: both said so.

P1: a request names a part or a GPU, never both, and never a part of any GPU. P5: nobody else waits longer for it. P2:
no part on nodes that its user, or an admin, named.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.history import Name, Started
from tests.fuzz.judge.facts import Facts, Held, Verdict, hosts
from tests.fuzz.judge.places import AWAY_S

MOST = 2  # on one GPU
LATER_S = 10.0  # a pass of Slurm's


def owner(facts: Facts, name: Name) -> str:
    """Its account; its user where it has none."""
    options = facts.history.options[name[0]]
    return options[options.index("-A") + 1] if "-A" in options else facts.history.users[name[0]]


def two_at_most(facts: Facts) -> Iterator[Verdict]:
    for stay in facts.stays:
        for slot in stay.shared | stay.slots:
            there = [other for other in facts.stays if other.job != stay.job and _both(stay, other, slot)]
            whole = slot in stay.slots or any(slot in other.slots for other in there)
            if there and (whole or len(there) >= MOST):
                said = f"{stay.node} g{slot} has {len(there)} more jobs" + (", and one has all of it" if whole else "")
                yield Verdict("P4", "crowded", stay.start, stay.job, said)
            if strangers := [other for other in there if owner(facts, other.job) != owner(facts, stay.job)]:
                said = f"beside job {strangers[0].job[0]} of {owner(facts, strangers[0].job)}"
                yield Verdict("P12", "strangers", stay.start, stay.job, said)


def _both(stay: Held, other: Held, slot: int) -> bool:
    """They are there together, when the first one starts."""
    return other.node == stay.node and slot in other.slots | other.shared and other.start <= stay.start < other.end


def both_said_so(facts: Facts) -> Iterator[Verdict]:
    """A part of a GPU is asked for in the name of a job that said so when it was submitted, and says so still."""
    for update in facts.ours:
        if not update.nodes or not any("shard" in text for text in update.gres.values()):
            continue
        for record in update.before:
            options = facts.history.options[record.job[0]]
            said = next((o.removeprefix("--comment=") for o in options if o.startswith("--comment=")), "")
            if facts.history.setting["sharing"] != "yes":
                yield Verdict("P2", "not-shared-here", update.at, record.job, f"{dict(update.gres)}")
            known = all(facts.before(e, update.content_n) for e in facts.said(record.job[0], "says"))
            still = not known or "pal:share" in (record.comment or "").split()
            if "pal:share" not in said.split() or not still:
                yield Verdict("P2", "share-unsaid", update.at, record.job, f"its user said {record.comment!r}")


def one_type(facts: Facts) -> Iterator[Verdict]:
    for update in facts.updates:
        for record in update.after:
            requests = (record.per_node, record.per_job, record.per_task, record.per_socket)
            if "shard" in record.per_job or "shard" in record.per_task:
                yield Verdict(
                    "P1", "part-of-any", update.at, record.job, f"it asks for {', '.join(filter(None, requests))}"
                )
            elif any("shard" in text for text in requests) and any("gpu" in text for text in requests):
                yield Verdict(
                    "P1", "two-types", update.at, record.job, f"it asks for {', '.join(filter(None, requests))}"
                )


def nobody_else_waits_longer(facts: Facts) -> Iterator[Verdict]:
    """Against the same world in which nobody shares: whose owner shares nothing starts as soon."""
    unshared = facts.history.unshared
    if unshared is None or facts.troubles or facts.nodes or any(event.what != "release" for event in facts.did):
        return
    sharing = {owner(facts, stay.job) for stay in facts.stays if stay.shared}
    for name, start in facts.first_start.items():
        was = unshared.get(name)
        if was is not None and owner(facts, name) not in sharing and start.at > was + LATER_S:
            yield Verdict("P5", "shared-away", start.at, name, f"{start.at - was:.0f} s later than where nobody shares")


def no_part_on_nodes_that_somebody_named(facts: Facts) -> Iterator[Verdict]:
    """A part is of the GPU that pald proved: on other nodes the job has what its user asked for."""
    for event in facts.events:
        if not isinstance(event, Started) or "shard" not in event.record.per_node:
            continue
        job, there = event.record.job, hosts(event.record.required)
        if any(there == hosts(pin.record.required) for pin in facts.pins if pin.job == job):
            continue
        named = max((e.at for e in facts.said(job[0], "edit") if "required" in e.words[0]), default=event.at)
        if event.at > named + AWAY_S and facts.well(named, event.at):
            said = f"its nodes were named at {named:.0f}: {event.record.required or 'any'}, and it has a part of a GPU"
            yield Verdict("P2", "part-elsewhere", event.at, job, said)


RULES = (two_at_most, both_said_so, one_type, nobody_else_waits_longer, no_part_on_nodes_that_somebody_named)
