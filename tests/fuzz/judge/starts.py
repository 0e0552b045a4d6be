"""P1: whatever becomes of pald, every job starts, and gets what it would have got without."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.history import Record
from tests.fuzz.judge.facts import Facts, Verdict, changed

LONGEST_LEASE_S = 600.0
SLACK_S = 3.0


def every_job_starts(facts: Facts) -> Iterator[Verdict]:
    h = facts.history
    if h.restless:
        return  # it was ended before its time
    for name, at in h.alone.items():
        if name in facts.first_start or any(True for _ in facts.said(name[0], "cancel")):
            continue
        left = next((r for r in h.left if r.job == name or (r.job[0] == name[0] and name[1] in r.tasks)), None)
        how = "it is gone" if left is None else f"still waits: begin {left.begin:.0f}, nodes {left.required or 'any'}"
        yield Verdict("P1", "never-started", h.ended, name, f"started at {at:.0f} without pald; {how}")


def no_lease_is_long(facts: Facts) -> Iterator[Verdict]:
    for update in facts.ours:
        for _, after in changed(update):
            own = facts.own_begin(after, update.at)
            most = max(update.at + LONGEST_LEASE_S, own or 0.0) + SLACK_S
            if update.begin is not None and after.begin > most:
                yield Verdict("P1", "long-lease", update.at, after.job, f"leased for {after.begin - update.at:.0f} s")


def nothing_is_taken_from_it(facts: Facts) -> Iterator[Verdict]:
    """GPUs and CPUs as without pald, on as many nodes."""
    for name, start in facts.first_start.items():
        alone = facts.history.alone_places.get(name)
        if alone is None or any(True for _ in facts.said(name[0], "edit")):
            continue
        got, had = start.parts, alone
        gpus, were = (sum(len(part.slots | part.shared) for part in parts) for parts in (got, had))
        if len(got) == len(had) and gpus != were:
            yield Verdict("P1", "other-gpus", start.at, name, f"{gpus} GPUs on {len(got)} nodes; {were} without pald")
        cpus, had_cpus = (sum(part.cpus for part in parts) for parts in (got, had))
        if len(got) == len(had) and gpus == were and cpus < had_cpus:
            yield Verdict("P1", "fewer-cpus", start.at, name, f"{cpus} CPUs; {had_cpus} without pald")
        least, most = start.record.least, start.record.most
        if len(got) < least or (most and len(got) > most):
            yield Verdict("P1", "other-nodes", start.at, name, f"{len(got)} nodes, of {least} to {most}")


def it_has_its_tasks(facts: Facts) -> Iterator[Verdict]:
    for name, start in facts.first_start.items():
        submitted = facts.submitted[name[0]].record
        if start.record.ntasks < submitted.ntasks:
            said = f"{start.record.ntasks} tasks; {submitted.ntasks} were asked for"
            yield Verdict("P1", "fewer-tasks", start.at, name, said)


def what_is_undone_is_as_it_was(facts: Facts) -> Iterator[Verdict]:
    """After a pin was taken back, the request says again what its user asked for."""
    if facts.history.setting["release"] == "22.05":
        return  # it never forgets types; its pins name none
    for update in facts.updates:
        for _, after in changed(update) if update.nodes == "" and update.fate in ("WHOLE", "TWICE") else ():
            asked = _request(facts.submitted[after.job[0]].record)
            if _request(after) != asked:
                now, was = (", ".join(filter(None, request)) for request in (_request(after), asked))
                said = f"{now} after an undo; {was} was asked for"
                yield Verdict("P1", "not-restored", update.at, after.job, said)


def _request(record: Record) -> tuple[str, ...]:
    return (record.per_node, record.per_job, record.per_task, record.per_socket)


RULES = (
    every_job_starts, no_lease_is_long, nothing_is_taken_from_it, it_has_its_tasks, what_is_undone_is_as_it_was,
)  # fmt: skip
