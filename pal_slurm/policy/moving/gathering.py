"""Jobs that are brought together on one node: a spread one and those that hold its GPUs. In: movers. Out: groups.

A job that is spread over nodes goes to GPUs of one of them; who holds these goes to what it leaves. Every GPU changes
hands within the group: nobody takes one that is free, and none is left over. It pays as a whole: what all gain is more
than what all moves cost, by the margin, and nobody becomes slower by more than `MOST_SLOWER`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pal_slurm.model import FloatArray, Gpus, Placement, Snapshot, Tier
from pal_slurm.policy.moving.exchange import MOST_RING, MOST_SLOWER, MOST_STILL_S

if TYPE_CHECKING:
    from pal_slurm.policy.moving.models import Between
    from pal_slurm.policy.moving.value import RunsNow

MOST_SPREAD = 32  # jobs, those that could win most, for which a node is sought
MOST_NODES = 16  # for each of them, those where it could win most
MOST_HOLDERS = 8  # of a node: those that leave it the best GPUs


class Goes(NamedTuple):
    """One of a group."""

    mover: RunsNow
    gpus: Gpus  # that it goes to
    gain_s: float
    holders: tuple[int, ...]  # jobs that hold these


Group = list[Goes]  # the spread one first


class Gatherings:
    """For one look. `kept`: rows of which GPUs are kept for a job that waits."""

    def __init__(
        self, standing: Sequence[RunsNow], view: Snapshot, between: Between, margin: float, kept: Collection[int]
    ) -> None:
        self._view, self._between, self._margin, self._kept = view, between, margin, kept
        self._width = view.cluster.width
        self._taken: set[int] = set()
        self._spread = [s for s in standing if len(s.job.nodes) > 1 and _could_be_together(s)]
        self._on: dict[int, list[RunsNow]] = defaultdict(list)  # by row
        if self._spread:
            for s in standing:
                if len(s.job.nodes) == 1:
                    self._on[s.gpus[0] // self._width].append(s)
        self._kinds: dict[tuple[str, int, tuple[str, ...]], FloatArray] = {}

    def groups(self, most: int) -> Iterator[Group]:
        """Who could win most first; `most`: moves, one of each member."""
        hopes = [(self._hope(s), s) for s in self._spread] if self._on and self._view.cluster.slots else []
        for hope, s in sorted(hopes, key=lambda pair: -pair[0])[:MOST_SPREAD]:
            if most < 2 or hope <= 0:
                return
            if s.job.id not in self._taken and (group := self._best(s, min(most, MOST_RING))):
                self._taken.update(goes.mover.job.id for goes in group)
                most -= len(group)
                yield group

    def _hope(self, s: RunsNow) -> float:
        """GPU seconds that it could win at most, its own move paid."""
        won = s.could_win(float(self._between.values(s).min()), s.now.base, s.app.comm[Tier.NODE])
        return len(s.gpus) * (won - self._margin * s.mover.cost_s)

    def _best(self, s: RunsNow, most: int) -> Group:
        """The group that wins most; empty: none pays."""
        best, won = Group(), 0.0
        for hope, row in self._nodes(s):
            if hope <= won:
                break
            for who, worth in self._holders(s, row, most - 1):
                if worth <= won:
                    break
                if (found := self._group(s, row, who)) and (worth := self._worth(found)) > won:
                    best, won = found, worth
        return best

    def _nodes(self, s: RunsNow) -> list[tuple[float, int]]:
        """Where it could go, with what it could win there at most; the best first."""
        n, own = len(s.gpus), Counter(g // self._width for g in s.gpus)
        ranked = self._ranked(s)
        found = []
        for row in {*(ranked[:, n - 1] < np.inf).nonzero()[0].tolist(), *own}:
            short = n - own[row]
            if short <= 0 or ranked[row, short - 1] == np.inf:
                continue
            won = s.could_win(float(ranked[row, short - 1]), s.now.base, s.app.comm[Tier.NODE])
            found.append((n * (won - self._margin * s.mover.cost_s), row))
        return sorted((pair for pair in found if pair[0] > 0), reverse=True)[:MOST_NODES]

    def _ranked(self, s: RunsNow) -> FloatArray:
        """(N, S) scores of GPUs of its model that others could leave to it, the best of each node first."""
        key = (s.app.cls, s.model, s.job.partitions)
        if key not in self._kinds:
            scores = np.full(self._view.cluster.n_nodes * self._width, np.inf)
            values = self._between.values(s)
            for holders in self._on.values():
                for holder in holders:
                    if holder.model == s.model and holder.job.partitions == s.job.partitions:
                        scores[list(holder.gpus)] = values[list(holder.gpus)]
            self._kinds[key] = np.sort(scores.reshape(-1, self._width), axis=1)
        return self._kinds[key]

    def _holders(self, s: RunsNow, row: int, most: int) -> list[tuple[tuple[RunsNow, ...], float]]:
        """Who could leave it as many GPUs as it lacks there, with what that could win at most; the best first."""
        mine = [g for g in s.gpus if g // self._width == row]
        short, values = len(s.gpus) - len(mine), self._between.values(s)
        parts = Counter(g // self._width for g in s.gpus if g // self._width != row)
        room = max(parts.values())
        those = [
            o
            for o in self._on[row]
            if o.model == s.model and o.job.partitions == s.job.partitions and len(o.gpus) <= room
            and o.job.id not in self._taken and _fit_together(s, o)
        ]  # fmt: skip
        worst = {o.job.id: float(values[list(o.gpus)].max()) for o in those}
        those = sorted(those, key=lambda o: worst[o.job.id])[:MOST_HOLDERS]
        base = max((float(values[g]) for g in mine), default=0.0)
        found = []
        for k in range(1, min(short, most, len(those)) + 1):
            if k > 1 and s.job.consent.signal:  # who is asked first may not answer: with one other at most
                break
            for who in combinations(those, k):
                if sum(len(o.gpus) for o in who) != short or (k > 1 and any(o.job.consent.signal for o in who)):
                    continue
                score = max(base, *(worst[o.job.id] for o in who))
                won = s.could_win(score, s.now.base, s.app.comm[Tier.NODE])
                pays = len(s.gpus) * (won - self._margin * s.mover.cost_s)
                found.append((who, pays - self._margin * sum(len(o.gpus) * o.mover.cost_s for o in who)))
        return sorted(found, key=lambda pair: -pair[1])

    def _group(self, s: RunsNow, row: int, who: Sequence[RunsNow]) -> Group:
        """Where each would go; empty: one of them can't, or would become too slow."""
        left: dict[int, list[int]] = defaultdict(list)
        for g in s.gpus:
            if g // self._width != row:
                left[g // self._width].append(g)
        there = tuple(sorted({g for o in who for g in o.gpus} | {g for g in s.gpus if g // self._width == row}))
        group = [Goes(s, there, s.gain(self._between.step(s, there)), tuple(o.job.id for o in who))]
        # The largest have the least choice; of equal ones who would lose most by the worst of these.
        feels = {o.job.id: float(self._between.values(o)[list(s.gpus)].max()) for o in who}
        for o in sorted(who, key=lambda o: (-len(o.gpus), -feels[o.job.id])):
            values = self._between.values(o)
            open_ = [sorted(gpus, key=lambda g: (values[g], g))[: len(o.gpus)] for gpus in left.values()]
            fits = [tuple(sorted(gpus)) for gpus in open_ if len(gpus) == len(o.gpus)]
            step, gpus = min(((self._between.step(o, gpus), gpus) for gpus in fits), default=(np.inf, ()))
            if 1.0 - step / o.step < -MOST_SLOWER:
                return []
            for g in gpus:
                left[g // self._width].remove(g)
            group.append(Goes(o, gpus, o.gain(step), (s.job.id,)))
        return group if self._has_room(group) and not self._puts_off(group) else []

    def _worth(self, group: Group) -> float:
        return sum(len(goes.gpus) * (goes.gain_s - self._margin * goes.mover.mover.cost_s) for goes in group)

    def _puts_off(self, group: Group) -> bool:
        """Whether those who may run beyond the start of the first job that waits get more of what is kept for it."""
        more: Counter[int] = Counter()
        for goes in group if self._kept else ():
            if goes.mover.late:
                more.update(g // self._width for g in goes.gpus)
                more.subtract(g // self._width for g in goes.mover.gpus)
        return any(n > 0 and row in self._kept for row, n in more.items())

    def _has_room(self, group: Group) -> bool:
        """CPUs and memory of each node, and whether its members may run there at all."""
        cluster = self._view.cluster
        cpus: Counter[int] = Counter()
        mem_mb: Counter[int] = Counter()
        for s, gpus, *_ in group:
            shape, nodes = s.need.shape, len(s.job.nodes)
            for row in {g // self._width for g in s.gpus}:
                cpus[row] -= s.job.cpus_alloc // nodes
                mem_mb[row] -= shape.mem_on_each(nodes)
            row = gpus[0] // self._width
            cpus[row] += shape.cpus_on_each(1)
            mem_mb[row] += shape.mem_on_each(1)
            if not any(area.mask is None or bool(area.mask[row]) for area in s.need.areas):
                return False
        takes = {goes.gpus[0] // self._width for goes in group}
        return all(cpus[row] <= cluster.cpus_free[row] and mem_mb[row] <= cluster.mem_free_mb[row] for row in takes)

    def where(self, goes: Goes) -> Placement:
        row = goes.gpus[0] // self._width
        slots = tuple(g % self._width for g in goes.gpus)
        return Placement((self._view.cluster.node_names[row],), (slots,), exact=True)


def _could_be_together(s: RunsNow) -> bool:
    """And go back to where it runs: Slurm can't be asked for more GPUs of one node than of another."""
    equal = len({len(gpus) for gpus in s.job.gpus}) == 1
    return equal and any(way[:2] == (1, len(s.gpus)) for way in s.need.ways)


def _fit_together(one: RunsNow, other: RunsNow) -> bool:
    """None of two is asked first while the other one stands still."""
    mine, theirs = one.job.consent, other.job.consent
    return bool(mine.signal) == bool(theirs.signal) and abs(mine.ahead_s - theirs.ahead_s) <= MOST_STILL_S
