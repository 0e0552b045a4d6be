"""What a move really cost and brought. In: moves that are over, who runs, what jobs showed. Out: the same, measured.

A move is measured when its job has ended, has moved again, or has run for as long there as its gain was reckoned for.
By the job's own steps where it shows them on both sides, else by the one equation; over the time that it ran there.
Without steps nobody saw how long it loaded, and what it had not saved: its cost is what was reckoned, or its dead time
where that was more. What a job shows is its user's word: it counts for no more than the time that it ran there (P12).
One that made room has brought what it promised if the job that it was for was let go within ten minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from pal_slurm.model import Ending, Job, Move
from pal_slurm.policy.moving.value import MOST_S
from pal_slurm.store.samples import JobSample

SOON_S = 600.0
OVER = (Ending.MOVED, Ending.ELSEWHERE)


def measured(
    moves: Iterable[Move],
    running: Iterable[Job],
    samples: Callable[[int], Sequence[JobSample]],
    now: float,
    pinned: Callable[[int], Iterable[float]] = lambda _: (),
) -> Iterator[Move]:
    """Those of which something was found out now. `samples`: what a job has shown; `pinned`: when it was let go."""
    runs = {job.id: job for job in running}
    for move in moves:
        if move.ending not in OVER or move.real_gain_s is not None or move.started_at is None:
            continue
        job = runs.get(move.job)
        there = job is not None and job.submit == move.submit and job.start == int(move.started_at)
        if there and now - move.started_at < MOST_S:
            continue
        ran = min(MOST_S, now - move.started_at)
        found = _measured(move, samples(move.job), ran)
        if move.makes_room_for is not None and found.ending is Ending.MOVED and _came(move, pinned):
            found = replace(found, real_gain_s=max(found.real_gain_s or 0.0, move.gain_s))
        yield found


def _came(move: Move, pinned: Callable[[int], Iterable[float]]) -> bool:
    """Who it made room for."""
    until = (move.stopped_at or move.began_at) + SOON_S
    return move.makes_room_for is not None and any(move.began_at <= at <= until for at in pinned(move.makes_room_for))


def _measured(move: Move, shown: Sequence[JobSample], ran: float) -> Move:
    stopped, started = move.stopped_at or move.began_at, move.started_at or move.began_at
    before = [s for s in shown if s.ended_at <= stopped + 1]
    after = [s for s in shown if s.begun_at >= started - 1]
    was, now = _pace(before), _pace(after)
    if was is None or now is None:
        was, now = move.step_before, move.step_after
    cost = max(move.cost_s, move.dead_s or 0.0)
    if before and after:  # from its last step to its first
        gap = min(s.begun_at for s in after) - max(s.ended_at for s in before)
        cost = min(max(gap, move.dead_s or 0.0), MOST_S)
    gain = 0.0 if not was or not now or move.ending is not Ending.MOVED else max(-ran, ran * (1.0 - now / was))
    return replace(move, real_cost_s=cost, real_gain_s=gain)


def _pace(shown: Sequence[JobSample]) -> float | None:
    """Seconds per step, as most of its samples say."""
    seconds = [s.step_seconds for s in shown if s.step_seconds]
    return median(seconds) if seconds else None
