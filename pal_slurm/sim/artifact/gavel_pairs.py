"""Gavel's published loop with two jobs on a GPU, bug for bug. In: arrivals, ends, what sharing costs. Out: rounds.

As `gavel.py` says, with pairs beside single jobs: what runs alone and what runs beside whom is counted apart, each with
its own share, time and deficit; who came after the last shares waits, and a GPU stays idle for it. A job whose partner
ends in a round is alone from then on; the published loop lets it go on at the speed of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pal_slurm.model import BoolArray, Cluster, Gpus, Sharing
from pal_slurm.policy.entitlement.division import Division, Together
from pal_slurm.policy.entitlement.max_min import central_pairs
from pal_slurm.sim.artifact.gavel import NEVER_RAN
from pal_slurm.sim.artifact.gavel_rounds import AS_PUBLISHED, GavelPace, GavelRounds
from pal_slurm.sim.artifact.units import DEFICIT, SHARE, TIME, Units
from pal_slurm.sim.engine import Run, Stage

AT_A_TIME = 256  # of the units, the best first: these nearly always fill the GPUs

Unit = tuple[int, int]  # rows; of a job alone its own twice


class _Place(NamedTuple):
    """Where a unit runs in this round."""

    type: int
    gpus: Gpus
    since: float


class InGavelPairs(GavelRounds):
    """`artifact/gavel-las-packed`."""

    def __init__(self, name: str, cluster: Cluster, sharing: Sharing, *, pace: GavelPace = AS_PUBLISHED) -> None:
        super().__init__(name, cluster, pace)
        self._spent = np.zeros(len(self._types))  # of each type, by all units, since the last shares
        self._units = Units(cluster.models, sharing)
        self._runs: dict[int, Run] = {}  # by row
        self._row: dict[int, int] = {}  # by job
        self._where: dict[Unit, _Place] = {}

    def arrive(self, run: Run) -> None:
        work = run.work
        row = self._units.came(work.app, work.gpus, shares=work.shares, time_s=self._round_s / 2)
        self._runs[row], self._row[work.id] = run, row
        self._changed = True

    def ended(self, run: Run, gpus: Gpus) -> None:
        row = self._row.pop(run.work.id)
        for unit in [unit for unit in self._where if row in unit]:
            had = self._where.pop(unit)
            self._spent[had.type] += run.end - had.since
        del self._runs[row]
        self._units.left(row)
        self._changed = True

    def _account(self, now: float) -> None:
        time = self._units.book[TIME]
        for (one, other), had in self._where.items():
            time[one, other, had.type] += now - had.since
            if one != other:
                time[other, one, had.type] += now - had.since
            self._spent[had.type] += now - had.since

    def _share(self, now: float) -> None:
        units, half = self._units, self._round_s / 2
        book = units.book
        book[DEFICIT] += book[SHARE] * (now - self._shared_at) - (book[TIME] - half)
        book[TIME] = half
        here = units.here()
        self._spent[:] = len(here) * (len(here) + 1) / 2 * half
        self._shared_at, self._changed = now, False
        if not len(here):
            return
        kind = units.kind[here]
        asked = Division(
            units.alone[kind], self._gpus, units.size[here].astype(float), together=Together(kind, units.rates)
        )
        shares = central_pairs(asked)
        book[SHARE] = 0.0
        book[SHARE][np.ix_(here, here)] = shares.beside
        book[SHARE][here, here] = shares.alone
        units.owed[:] = False
        units.owed[here] = True

    def _begin_round(self, stage: Stage) -> bool:
        self._run(stage, self._chosen())
        return bool(self._where)

    def _chosen(self) -> dict[Unit, int]:
        """Units to types."""
        left, chosen = self._gpus.tolist(), {}
        free: BoolArray = self._units.size > 0
        for t in self._types:
            for unit in self._in_turn(t, free):
                size = int(self._units.size[unit[0]])
                if free[unit[0]] and free[unit[1]] and size <= left[t]:
                    left[t] -= size
                    free[list(unit)] = False
                    chosen[unit] = t
                if not left[t]:
                    break
        return chosen

    def _in_turn(self, t: int, free: BoolArray) -> Iterator[Unit]:
        """Those that may run there by (share over the part of the type's time that they had, deficit, share)."""
        units = self._units
        one, other = np.nonzero(np.triu(units.runs[:, :, t] & free & free[:, None]))
        share, deficit = units.book[SHARE, one, other, t], units.book[DEFICIT, one, other, t]
        part = units.book[TIME, one, other, t] / self._spent[t] if self._spent[t] else np.zeros(len(one))
        rank = np.where(part > 0, share / np.where(part > 0, part, 1.0), share * NEVER_RAN)
        rank[~(units.owed[one] & units.owed[other])] = 0.0
        table = np.column_stack((one, other, rank, deficit, share, one == other))  # of alike ones a job alone is first
        while len(table):
            first = max(len(table) - AT_A_TIME, 0)
            by_rank = np.argpartition(table[:, 2], first) if first else np.arange(len(table))
            best, rest = table[by_rank[first:]], table[by_rank[:first]]
            order = np.lexsort((best[:, 5], best[:, 4], best[:, 3], best[:, 2]))[::-1]
            yield from map(tuple, best[order, :2].astype(int).tolist())
            table = rest[free[rest[:, :2].astype(int)].all(axis=1)]

    def _run(self, stage: Stage, chosen: dict[Unit, int]) -> None:
        now, owed, size = stage.now, self._units.owed, self._units.size
        new: dict[Unit, _Place] = {}
        for t, workers in enumerate(self._workers):
            wanted = []
            for unit, there in chosen.items():
                if there == t and owed[list(unit)].all():
                    had = self._where.get(unit)
                    wanted.append((unit, int(size[unit[0]]), had.gpus if had is not None and had.type == t else ()))
            new |= {unit: _Place(t, gpus, now) for unit, gpus in workers.given(wanted).items()}
        rows = {row for unit in new for row in unit}
        for row, run in self._runs.items():
            if run.gpus and row not in rows:
                stage.stop(run)
        for unit, found in new.items():
            for row in dict.fromkeys(unit):
                stage.start(self._runs[row], found.gpus)
        self._where = new
