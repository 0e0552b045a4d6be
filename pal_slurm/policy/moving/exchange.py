"""Jobs that exchange their GPUs: two, or a ring of up to eight. In: running movers. Out: rings that pay.

PAL's case: a job that hardly feels a slow GPU sits on a good one. It may become a little slower for the other one's
sake, never by more than `MOST_SLOWER`; of two jobs of one user on different models by more: it is his to gain by it.
In a ring each takes the GPUs of the next. It is longer than two only where each further member pays for its move, and
none of them is asked first: who may not answer would break it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pal_slurm.model import FloatArray, IntArray, Snapshot

if TYPE_CHECKING:
    from pal_slurm.policy.moving.models import Between
    from pal_slurm.policy.moving.value import RunsNow
    from pal_slurm.policy.needs import Need

T = TypeVar("T")
MOST_PAIRS = 256  # jobs of one shape, those that could win most, for which a partner is sought
MOST_RING = 8
MOST_STILL_S = 60  # by how much longer one may have to save than the other
MOST_SLOWER = 0.02
MOST_SLOWER_MODEL = 0.25

Ring = list[tuple["RunsNow", "RunsNow", float]]  # who goes, whose GPUs he takes, what he wins


def exchanges(
    standing: Sequence[RunsNow],
    view: Snapshot,
    between: Between,
    margin: float,
    most: int,
    free: IntArray,
    heads: Sequence[Need],
) -> Iterator[Ring]:
    """The best first; `most`: moves, one of each member. `free`: GPUs by row. `heads`: for whom GPUs are kept."""
    shapes: dict[tuple[object, ...], list[RunsNow]] = defaultdict(list)
    for s in standing:
        if all(gpus == s.job.gpus[0] for gpus in s.job.gpus):  # else it can't be asked for
            shapes[(-1 if s.app.base else s.model, len(s.job.nodes), len(s.job.gpus[0]), s.job.partitions)].append(s)
    for alike in shapes.values():
        if len(alike) > 1:
            for ring in _Alike(alike, view, between, margin, free, heads).rings(most):
                most -= len(ring)
                yield ring


class _Alike:
    """Jobs of one shape: any of them fits where another one runs."""

    def __init__(
        self,
        alike: Sequence[RunsNow],
        view: Snapshot,
        between: Between,
        margin: float,
        free: IntArray,
        heads: Sequence[Need],
    ) -> None:
        self._alike, self._view, self._between, self._margin = alike, view, between, margin
        self._free, self._heads = free, heads

    def _tables(self) -> bool:
        """False: nobody would win enough anywhere."""
        alike, steps = self._alike, _Steps(self._alike, self._between)
        now, rest = np.array([s.step for s in alike]), np.array([s.rest_s for s in alike])
        wins, pays = rest * (1.0 - steps.least() / now), self._margin * np.array([s.mover.cost_s for s in alike])
        if (wins <= pays).all():
            return False
        self._worst = worst = np.argsort(-wins, kind="stable")[:MOST_PAIRS]
        self._row = {int(i): row for row, i in enumerate(worst)}
        # One row for each of the worst: what it wins where the others are, and what they win where it is.
        quicker = _quicker(steps.of(worst), now[worst][:, None])
        self._goes = rest[worst][:, None] * quicker - pays[worst][:, None]
        quickens = _quicker(steps.at(worst), now)
        self._comes = rest * quickens - pays
        self._both = self._goes + self._comes
        model, user = np.array([s.model for s in alike]), np.array([s.job.user for s in alike])
        own = (model[worst][:, None] != model) & (user[worst][:, None] == user)
        for gain in (quicker, quickens):
            self._both[(gain < -MOST_SLOWER_MODEL) | ((gain < -MOST_SLOWER) & ~own)] = -np.inf
        self._both[np.arange(len(worst)), worst] = -np.inf
        # Who may run beyond the start of the first job that waits takes no GPUs that are kept for it, but where that
        # job can start on what either of the two leaves: it starts when the first of them ends, wherever that is.
        late, kept = np.array([s.late for s in alike]), np.array([s.on_kept for s in alike])
        serves = np.array([self._serves(s) for s in alike])
        either = serves[worst][:, None] & serves & (model[worst][:, None] == model)
        there, here = late[worst][:, None] & kept & ~either, kept[worst][:, None] & late & ~either
        self._both[there | here], self._goes[there], self._comes[here] = -np.inf, -np.inf, -np.inf
        asked = np.array([bool(s.job.consent.signal) for s in alike])  # who is asked first may not go
        self._goes[(quicker < -MOST_SLOWER) | asked[worst][:, None]] = -np.inf
        self._comes[(quickens < -MOST_SLOWER) | asked] = -np.inf
        return True

    def _serves(self, s: RunsNow) -> bool:
        """Whether each job for which GPUs are kept can start on any one of its nodes when it has ended."""
        cluster, nodes = self._view.cluster, len(s.job.nodes)
        rows = [cluster.node_index[name] for name in s.job.nodes]
        gpus = int(self._free[rows].min()) + len(s.job.gpus[0])
        cpus = int(cluster.cpus_free[rows].min()) + s.job.cpus_alloc // nodes
        mem_mb = int(cluster.mem_free_mb[rows].min()) + s.need.shape.mem_on_each(nodes)
        return bool(self._heads) and all(
            any(way[0] == 1 and way[1] <= gpus and way[2] <= cpus and way[3] <= mem_mb for way in head.ways)
            and any(area.mask is None or bool(area.mask[rows].all()) for area in head.areas)
            for head in self._heads
        )

    def rings(self, most: int) -> Iterator[Ring]:
        tries = 16 * most if self._tables() else 0
        if not tries:
            return
        while most > 1 and tries > 0:
            tries -= 1
            row, j = divmod(int(self._both.argmax()), len(self._alike))
            start, worth = int(self._worst[row]), float(self._both[row, j])
            if worth <= 0:
                break
            self._both[row, j] = -np.inf
            members = next(filter(self._may, (self._grown(start, min(most, MOST_RING), worth), [start, j])), [])
            if members:
                yield self._taken(members)
                most -= len(members)
        # Where of any two one would become much slower, of three maybe none does.
        # Whoever goes first wins, and somebody may take its GPUs.
        may = (self._goes[:tries].max(axis=1) > 0) & (self._comes[:tries].max(axis=1) > -np.inf)
        for start in self._worst[:tries][may].tolist():
            if self._may(members := self._grown(start, min(most, MOST_RING), 0.0)):
                yield self._taken(members)
                most -= len(members)

    def _grown(self, start: int, most: int, worth: float) -> list[int]:
        """The best ring of three or more in which each takes what it likes best; empty: none is worth more."""
        best, chain, so_far = list[int](), [start], 0.0
        while len(chain) < most and chain[-1] in self._row:
            to = self._goes[self._row[chain[-1]]].copy()
            to[chain] = -np.inf
            closes = to + self._comes[self._row[start]]
            last, likes = int(closes.argmax()), int(to.argmax())
            if len(chain) > 1 and so_far + closes[last] > worth:
                worth, best = so_far + float(closes[last]), [*chain, last]
            if to[likes] <= 0:
                break
            so_far += float(to[likes])
            chain.append(likes)
        return best

    def _may(self, members: Sequence[int]) -> bool:
        """Not where one of them alone is asked first, or has longer: another one would stand still until it answers."""
        ring = [self._alike[i] for i in members]
        ahead = [s.job.consent.ahead_s for s in ring]
        if not ring or len({bool(s.job.consent.signal) for s in ring}) > 1 or max(ahead) - min(ahead) > MOST_STILL_S:
            return False
        return all(_may_have(one, other, self._view) for one, other in _in_turn(ring))

    def _taken(self, members: list[int]) -> Ring:
        for table in (self._both, self._goes, self._comes):
            table[np.isin(self._worst, members)] = -np.inf
            table[:, members] = -np.inf
        ring = [self._alike[i] for i in members]
        return [(one, other, one.gain(self._between.step(one, other.gpus))) for one, other in _in_turn(ring)]


def _in_turn(ring: Sequence[T]) -> Iterator[tuple[T, T]]:
    return zip(ring, [*ring[1:], ring[0]], strict=True)


class _Steps:
    """Seconds per step of some on the GPUs of others. Never of all on those of all: that is memory by the square."""

    def __init__(self, alike: Sequence[RunsNow], between: Between) -> None:
        self._alike, self._between, self._there = alike, between, between.sets(alike)
        self._kinds: dict[tuple[int, int], list[int]] = defaultdict(list)  # by application and model: alike anywhere
        for i, s in enumerate(alike):
            self._kinds[id(s.app), s.model].append(i)
        self._rows: dict[tuple[int, int], FloatArray] = {}

    def least(self) -> FloatArray:
        """(all,) where each is fastest."""
        least = np.empty(len(self._alike))
        for kind, members in self._kinds.items():
            least[members] = self._everywhere(kind).min()
        return least

    def of(self, some: IntArray) -> FloatArray:
        """(some, all) on the GPUs of all."""
        kinds = ((id(s.app), s.model) for s in map(self._alike.__getitem__, some))
        return np.stack([self._everywhere(kind) for kind in kinds])

    def at(self, some: IntArray) -> FloatArray:
        """(some, all) of all on their GPUs."""
        steps = np.empty((len(some), len(self._alike)))
        for kind, members in self._kinds.items():
            steps[:, members] = self._everywhere(kind)[some][:, None]
        return steps

    def _everywhere(self, kind: tuple[int, int]) -> FloatArray:
        row = self._rows.get(kind)
        if row is None:
            row = self._between.steps(self._alike[self._kinds[kind][0]], self._there)
            if len(self._rows) < MOST_PAIRS:
                self._rows[kind] = row
        return row


def _quicker(steps: FloatArray, now: FloatArray) -> FloatArray:
    """By which share than now; in place."""
    steps /= now
    np.subtract(1.0, steps, out=steps)
    return steps


def _may_have(one: RunsNow, other: RunsNow, view: Snapshot) -> bool:
    cluster, shape, nodes = view.cluster, one.need.shape, len(other.job.nodes)
    rows = [cluster.node_index[name] for name in other.job.nodes]
    theirs = other.need.shape.mem_on_each(nodes)
    if (cluster.cpus_free[rows] + other.job.cpus_alloc // nodes < shape.cpus_on_each(nodes)).any():
        return False
    if (cluster.mem_free_mb[rows] + theirs < shape.mem_on_each(nodes)).any():
        return False
    return any(area.mask is None or bool(area.mask[rows].all()) for area in one.need.areas)
