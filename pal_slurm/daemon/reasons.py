"""Why records for `palctl why`. In: a plan's decisions. Out: a Why per decision that says something new, and what to
remember once it is written.

A queue of 10,000 waiting jobs says the same in every cycle; what did not change is not worked out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pal_slurm.daemon.entries import Entries, ReasonTold
from pal_slurm.daemon.round import Round
from pal_slurm.model import Action, Decision
from pal_slurm.policy.pools.billing import is_up
from pal_slurm.report.why import why_of
from pal_slurm.store import Why

MOST_WAITING = 500  # of those that wait, the first so many in the order are explained


def news(
    decisions: Sequence[Decision], round: Round, entries: Entries, actuator: str, *, parts: bool = False
) -> Iterator[tuple[Why, ReasonTold]]:
    """`parts`: two jobs may have one GPU here."""
    jobs = {job.id: job for job in round.view.pending}
    for decision in decisions:
        job = jobs[decision.job]
        waits = decision.action in (Action.WAIT, Action.LEAVE, Action.EXCLUDE)
        if waits and decision.rank > MOST_WAITING:
            continue
        owed = "owed" if round.due is not None and job.key in round.due.shares else ""
        entry, says = entries[job.key], (decision.action.value, decision.reason.value, owed)
        before = entry.told.get(decision.task)
        if decision.action is Action.LEAVE and before is not None and before[0] == Action.PLAIN:
            continue  # let go already, and about to start: why it was let go is what one wants to know
        if not waits or before != says:
            due = None if round.due is None else round.due.told(job, round.now)
            up = not job.hint.same or is_up(job, round.view.cluster)
            why = why_of(decision, job, round.view, round.knowledge, actuator, due, same_up=up, parts=parts)
            yield why, ReasonTold(entry, decision.task, says)
