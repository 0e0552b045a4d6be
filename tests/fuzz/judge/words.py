"""P2: only jobs that are ours are edited, and what their users said stands."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tests.fuzz.history import Name, Record, Updated
from tests.fuzz.judge.facts import ADMIN, Facts, Verdict, changed, hosts, meant

SLACK_S = 2.0  # slurmctld counts in whole seconds


def only_ours(facts: Facts) -> Iterator[Verdict]:
    for update in facts.updates:
        for record in (r for r in update.before if meant(update.target, r)):
            if not record.marked:
                yield Verdict("P2", "foreign", update.at, record.job, f"{update.target} bears no mark, and was updated")


def nothing_in_shadow(facts: Facts) -> Iterator[Verdict]:
    since = min((t.at for t in facts.troubles if t.what == "shadow"), default=math.inf)
    for update in facts.ours:  # one that was about to be made is
        if facts.history.setting["actuator"] == "shadow" or update.at > since + SLACK_S:
            yield Verdict("P2", "shadow", update.at, None, f"{update.target} was updated in shadow")


def nodes_of_the_user(facts: Facts) -> Iterator[Verdict]:
    """A node list that pald did not write is its user's."""
    written: dict[Name, frozenset[str]] = {}
    gone = min((t.at for t in facts.troubles if t.what == "dbgone"), default=float("inf"))
    for update in facts.updates:
        for before, after in changed(update):
            mine = written.get(before.job, frozenset()) | written.get((before.job[0], None), frozenset())
            had, has = hosts(before.required), hosts(after.required)
            named = [e for e in facts.said(before.job[0], "edit") if "required" in e.words[0]]
            seen = all(facts.before(e, update.looked_n) or e.at > update.at for e in named)
            # `palctl undo --all` without the ledger: nodes beside slots of ours, and named since, are ours to it.
            slots = before.job in written and ":g" in before.per_node + before.per_job
            by_hand = any(t.what == "undo" and 0 <= update.at - t.at < 1 for t in facts.troubles)
            blind = update.pald == ADMIN and (slots or (bool(named) and by_hand))
            if had and had != has and not had <= mine and seen and update.at < gone and not blind:
                said = f"its user's nodes {before.required} became {after.required or 'any'}"
                yield Verdict("P2", "own-nodes", update.at, before.job, said)
            if update.nodes:
                written[after.job] = hosts(update.nodes) | mine


def begin_of_the_user(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        for before, after in changed(update):
            # What was read again before the update counts; a later word can't have been seen.
            own = facts.own_begin(before, update.at, update.looked_n)
            if own is not None and own > update.at + SLACK_S and after.begin < own - SLACK_S:
                said = f"may start at {max(after.begin, update.at):.0f}, its user said {own:.0f}"
                yield Verdict("P2", "own-begin", update.at, before.job, said)


def pins(facts: Facts) -> Iterator[Verdict]:
    """Where a pin says that a job shall run, its user must have left open."""
    for update in facts.ours:
        if not update.nodes:
            continue
        named = hosts(update.nodes)
        for before in (r for r in update.before if meant(update.target, r)):
            if bad := _against(facts, update, before, named):
                yield Verdict("P2", bad[0], update.at, before.job, f"{bad[1]}; pinned to {update.nodes}")


def _against(facts: Facts, update: Updated, record: Record, named: frozenset[str]) -> tuple[str, str] | None:
    closed = named & hosts(record.excluded)
    if closed and _known(facts, record, "excluded_nodes", update.looked_n):
        return "excluded", f"its user excludes {', '.join(sorted(closed))}"
    if "pal:off" in (record.comment or "").split() and _known(facts, record, "comment", update.content_n):
        return "off", "its user said pal:off"
    if len(record.tasks) > 1 and not re.fullmatch(r"[0-9]+_[0-9]+", update.target):
        return "array", f"{len(record.tasks)} tasks at once"
    partitions = (update.partition or record.partition).split(",")
    if "gpu" not in partitions and "n1" in named and _known(facts, record, "partition", update.looked_n):
        return "partition", "n1 is not in its partition"
    canary = facts.history.setting["canary"]
    if canary and record.partition != canary:
        return "canary", f"of {record.partition}, and only {canary} is pald's"
    if _paused(facts, update.asked):
        return "paused", "pald is paused"
    return None


def _known(facts: Facts, record: Record, field: str, when: int) -> bool:
    """Whether its user had said so by then."""
    said = [e for e in facts.said(record.job[0], "edit") if any(w.startswith(field) for w in e.words)]
    return not said or facts.before(said[0], when)


def _paused(facts: Facts, at: float) -> bool:
    last = [t for t in facts.troubles if t.what in ("pause", "resume") and t.at < at]
    return bool(last) and last[-1].what == "pause" and at < facts.history.mended


def held_jobs(facts: Facts) -> Iterator[Verdict]:
    """A job that its user holds, or that waits for another, is not told where to run."""
    for update in facts.ours:
        if not update.nodes:
            continue
        for record in (r for r in update.before if meant(update.target, r)):
            holds = [e for e in facts.said(record.job[0]) if e.what == "hold" and not facts.before(e, update.content_n)]
            if (record.held and not holds) or (record.waits and update.content > _submit(facts, record)):
                why = "is held" if record.held else "waits for another job"
                yield Verdict("P2", "held", update.at, record.job, f"pinned while it {why}")


def _submit(facts: Facts, record: Record) -> float:
    submitted = facts.submitted.get(record.job[0])
    return submitted.at if submitted is not None else 0.0


RULES = (only_ours, nothing_in_shadow, nodes_of_the_user, begin_of_the_user, pins, held_jobs)
