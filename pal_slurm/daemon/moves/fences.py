"""Who needs a fence, and which fences are over. In: snapshot, moves, their newest steps. Out: node names; jobs. Pure.

A fence is a reservation of whole nodes: jobs that run there go on, nobody else starts. It is lifted right after the pin
that it was set up for, or when its move is over; and it ends by itself (FENCE_S), whatever became of pald.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pal_slurm.guard.running import around, unleased
from pal_slurm.model import Decision, EditResult, Intent, Job, Move, Outcome, Pin, Reservation, Snapshot


def fence_for(job: Job, together: Sequence[Decision], view: Snapshot) -> tuple[str, ...]:
    """The nodes to close; none where nobody could take the GPUs of this move, or of those that go with it.

    `together`: its own, and those of the others that exchange their GPUs with it.
    """
    taken = {name for decision in together if decision.placement for name in decision.placement.nodes}
    rival = next(unleased(view, {*job.nodes, *taken}), None)
    return () if rival is None else around(job, together[0])


def over(
    reservations: Iterable[Reservation],
    going: Mapping[int, Move],
    newest: Mapping[int, Intent],
    results: Iterable[EditResult],
) -> list[int]:
    """Jobs whose fences stand for nothing any more. `newest`: steps before this cycle, `results`: its own."""
    made = {job: (step.edit, step.outcome) for job, step in newest.items()}
    made |= {result.edit.job: (result.edit, result.outcome) for result in results}
    sent = {job for job, (edit, came) in made.items() if isinstance(edit, Pin) and came is not Outcome.REFUSED}
    needed = {job for job, move in going.items() if move.fence and not move.handed and job not in sent}
    # Of those that exchange their GPUs each is pinned where another one was: all fences stand until all are.
    needed |= {other for job in needed for other in going[job].others}
    return sorted(r.fenced for r in reservations if r.fenced is not None and r.fenced not in needed)
