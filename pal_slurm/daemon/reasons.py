"""Why records for `palctl why`. In: a plan's decisions. Out: a Why per decision that says something new.

A queue of 10,000 waiting jobs says the same in every cycle; what did not change is not worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pal_slurm.model import Action, Decision, Job, Knowledge, Snapshot
from pal_slurm.report.why import why_of
from pal_slurm.store import Why

MOST_WAITING = 500  # of those that wait, the first so many in the order are explained


class Reasons:
    def __init__(self) -> None:
        self._told: dict[tuple[int, int, int | None], tuple[str, str]] = {}

    def new(
        self, decisions: Sequence[Decision], snapshot: Snapshot, knowledge: Knowledge, actuator: str
    ) -> Iterator[Why]:
        jobs: dict[int, Job] = {job.id: job for job in snapshot.pending}
        told: dict[tuple[int, int, int | None], tuple[str, str]] = {}
        for decision in decisions:
            job = jobs[decision.job]
            waits = decision.action in (Action.WAIT, Action.LEAVE)
            if waits and decision.rank > MOST_WAITING:
                continue
            key, says = (*job.key, decision.task), (decision.action.value, decision.reason.value)
            before = self._told.get(key)
            if decision.action is Action.LEAVE and before is not None and before[0] == Action.PLAIN:
                told[key] = before  # let go already, and about to start: why it was let go is what one wants to know
                continue
            told[key] = says
            if not waits or before != says:
                yield why_of(decision, job, snapshot, knowledge, actuator)
        self._told = told

    def instead(
        self, decisions: Sequence[Decision], snapshot: Snapshot, knowledge: Knowledge, actuator: str
    ) -> Iterator[Why]:
        """What became of decisions of this cycle that could not be carried out."""
        jobs = {job.id: job for job in snapshot.pending}
        for decision in decisions:
            job = jobs[decision.job]
            self._told[(*job.key, decision.task)] = (decision.action.value, decision.reason.value)
            yield why_of(decision, job, snapshot, knowledge, actuator)
