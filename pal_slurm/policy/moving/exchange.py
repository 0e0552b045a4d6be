"""Two jobs that exchange their GPUs. In: running movers. Out: pairs that gain together more than both moves cost.

PAL's case: a job that hardly feels a slow GPU sits on a good one. It may become a little slower for the other one's
sake, never by more than `MOST_SLOWER`; of two on different models by more, for there the other one gains much more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import FloatArray, Snapshot, Speeds

if TYPE_CHECKING:
    from pal_slurm.policy.moving.models import Between
    from pal_slurm.policy.moving.value import RunsNow

MOST_PAIRS = 256  # jobs of one shape, those that could win most, for which a partner is sought
MOST_STILL_S = 60  # by how much longer one may have to save than the other
MOST_SLOWER = 0.02
MOST_SLOWER_MODEL = 0.25

Pair = tuple["RunsNow", "RunsNow", float, float]  # what the first wins, and the second


def exchanges(
    standing: Sequence[RunsNow], view: Snapshot, between: Between, speeds: Speeds, margin: float, most: int
) -> Iterator[Pair]:
    """The best first; `most`: moves, two of each pair."""
    shapes: dict[tuple[object, ...], list[RunsNow]] = defaultdict(list)
    for s in standing:
        if all(gpus == s.job.gpus[0] for gpus in s.job.gpus):  # else it can't be asked for
            shapes[(-1 if s.app.base else s.model, len(s.job.nodes), len(s.job.gpus[0]), s.job.partitions)].append(s)
    for alike in shapes.values():
        if len(alike) > 1 and any(_hopes(s, between, speeds, margin) for s in alike):
            for pair in _pairs(alike, view, between, margin, most // 2):
                most -= 2
                yield pair


def _hopes(s: RunsNow, between: Between, speeds: Speeds, margin: float) -> bool:
    """Whether it would pay for its move, if it got the best GPU of all."""
    best = float(speeds.values(s.app.cls).min())
    return max(s.could_win(best, base) for _, base in between.bases(s)) > margin * s.mover.cost_s


def _pairs(alike: Sequence[RunsNow], view: Snapshot, between: Between, margin: float, most: int) -> Iterator[Pair]:
    steps = _steps(alike, between)
    now = np.array([s.step for s in alike])
    rest, cost = np.array([s.rest_s for s in alike]), np.array([s.mover.cost_s for s in alike])
    quicker = 1.0 - steps / now[:, None]  # of i on the GPUs of j
    gain = rest[:, None] * quicker
    worst = np.argsort(-gain.max(axis=1), kind="stable")[:MOST_PAIRS]
    both = gain[worst] + gain[:, worst].T - margin * (cost[worst][:, None] + cost[None, :])
    model = np.array([s.model for s in alike])
    least = np.where(model[:, None] == model, -MOST_SLOWER, -MOST_SLOWER_MODEL)
    both[(quicker[worst] < least[worst]) | (least[worst] > quicker[:, worst].T)] = -np.inf
    both[np.arange(len(worst)), worst] = -np.inf
    tries = 16 * most
    while most > 0 and tries > 0:
        tries -= 1
        row, j = divmod(int(both.argmax()), len(alike))
        i = int(worst[row])
        if both[row, j] <= 0:
            return
        both[row, j] = -np.inf
        if _may_exchange(alike[i], alike[j], view):
            both[np.isin(worst, (i, j))] = -np.inf
            both[:, [i, j]] = -np.inf
            most -= 1
            yield alike[i], alike[j], float(gain[i, j]), float(gain[j, i])


def _steps(alike: Sequence[RunsNow], between: Between) -> FloatArray:
    """Seconds per step of each on the GPUs of each; one row per application and model is worked out."""
    rows: dict[tuple[int, int], FloatArray] = {}
    for s in alike:
        if (id(s.app), s.model) not in rows:
            rows[id(s.app), s.model] = np.array([between.step(s, other.gpus) for other in alike])
    return np.stack([rows[id(s.app), s.model] for s in alike])


def _may_exchange(one: RunsNow, other: RunsNow, view: Snapshot) -> bool:
    """Not where one of them alone is asked first, or has longer: the other one would stand still until it answers."""
    first, second = one.job.consent, other.job.consent
    if bool(first.signal) != bool(second.signal) or abs(first.ahead_s - second.ahead_s) > MOST_STILL_S:
        return False
    return _may_have(one, other, view) and _may_have(other, one, view)


def _may_have(one: RunsNow, other: RunsNow, view: Snapshot) -> bool:
    rows = [view.cluster.node_index[name] for name in other.job.nodes]
    return any(area.mask is None or bool(area.mask[rows].all()) for area in one.need.areas)
