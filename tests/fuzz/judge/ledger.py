"""P3: an intent is on disk before its edit, nothing is done twice, and what the ledger says became of it is true."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.history import Ended, Started, Submitted, Updated
from tests.fuzz.judge.facts import Facts, Verdict, hosts

SLACK_S = 1.5
DONE = ("WHOLE", "TWICE")


def _line(update: Updated) -> tuple[int, int | None] | None:
    return update.before[0].job if update.before else None


def intent_first(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        row, job = update.row, _line(update)
        if row is None or row.outcome is not None:
            yield Verdict(
                "P3", "no-intent", update.at, job, f"{update.target} was updated, and no open intent was on disk"
            )
        elif bad := _other(update):
            yield Verdict("P3", "other-intent", update.at, job, f"the intent on disk is another: {bad}")


def _other(update: Updated) -> str:
    row = update.row
    assert row is not None
    if (row.kind == "pin") is not bool(update.nodes):
        return f"{row.kind} for an update of {'nodes' if update.nodes else 'no node'}"
    if row.kind == "pin" and hosts(",".join(row.nodes)) != hosts(update.nodes or ""):
        return f"nodes {', '.join(row.nodes)}, not {update.nodes}"
    if (row.until is None) is not (update.begin is None):
        return f"until {row.until}, begin {update.begin}"
    if row.until is not None and update.begin is not None and abs(row.until - update.begin) > SLACK_S:
        return f"until {row.until:.0f}, begin {update.begin:.0f}"
    return ""


def nothing_twice(facts: Facts) -> Iterator[Verdict]:
    seen: dict[tuple[int, str, int], Updated] = {}
    base = 0
    lost = sorted(t.at for t in facts.troubles if t.what == "dbgone")
    for update in facts.ours:
        while lost and update.at > lost[0]:  # a new ledger counts anew
            lost.pop(0)
            base += 1
        if update.row is None:
            continue
        key = (base, update.target, update.row.id)
        if key in seen and not seen[key].said:
            yield Verdict("P3", "twice", update.at, _line(update), f"step {update.row.id} was sent twice")
        seen[key] = update


def pinned_once(facts: Facts) -> Iterator[Verdict]:
    """No pin of pald's is written over another that was not taken back."""
    for pin in facts.pins:
        later = next((u for u in facts.ours if u.at == pin.until and u.nodes and u is not pin.update), None)
        if pin.why == "updated" and later is not None and any(r.job == pin.job for r in later.after):
            yield Verdict("P3", "pinned-twice", pin.until, pin.job, f"{pin.update.nodes}, then {later.nodes}")


def told_truly(facts: Facts) -> Iterator[Verdict]:
    """A pin that the ledger calls done has arrived whole."""
    if any(t.what == "dbgone" for t in facts.troubles):
        return
    lines = {e.record.number: e.record.job[0] for e in facts.events if isinstance(e, Submitted)}
    sent = {u.row.id: u for u in facts.ours if u.row is not None}
    for step in facts.history.ledger:
        update = sent.get(step.id)
        if step.kind != "pin" or step.outcome != "done" or (update is not None and update.fate in DONE):
            continue
        line = lines.get(step.job, -1)
        ran = [e for e in facts.first_start.values() if e.record.job[0] == line]
        # Undone by others before it was sent, and started as it likes: a start is what the ledger calls done, too.
        if (
            update is not None
            or not ran
            or not any(t.what in ("kill", "stall", "undo", "nostore") for t in facts.troubles)
        ):
            how = "it never arrived" if update is None else f"it arrived {update.fate}"
            yield Verdict(
                "P3", "false-outcome", facts.history.ended, None, f"step {step.id} of {step.job} is done; {how}"
            )


def nothing_is_left_open(facts: Facts) -> Iterator[Verdict]:
    """When all is over and pald has looked again, every operation is closed and its outcome known."""
    h = facts.history
    last = max((e.at for e in facts.events if isinstance(e, Started | Ended)), default=0.0)
    if h.left or facts.looked("pald", min(last, h.ended - 11.0), h.ended) < 1:
        return
    for step in h.ledger:
        if step.closed and h.setting["actuator"] == "move":
            continue  # a move goes on by what Slurm shows, and leaves a step unknown that was not answered
        if step.outcome in (None, "unknown") or not step.closed:
            said = f"step {step.id} of {step.job}, {step.kind}: {step.outcome}, {'closed' if step.closed else 'open'}"
            yield Verdict("P3", "left-open", h.ended, None, said)


RULES = (intent_first, nothing_twice, pinned_once, told_truly, nothing_is_left_open)
