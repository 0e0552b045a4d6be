"""Gavel's published loop with two jobs on a GPU, bug for bug. In: arrivals, ends, what sharing costs. Out: rounds.

As `gavel.py`, with pairs beside single jobs: a job alone and each of its pairs have their own share, time and deficit.
A job that came after the last shares waits, and a GPU stays idle for it. A job whose partner ends in a round is alone
from then on; the published loop lets it go on at the speed of two.

A job has a row; a unit is two rows, and a job alone is its row twice. Every table of units is symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.published.gavel import AS_PUBLISHED, NEVER_RAN, GavelPace, GavelRounds, rate
from pal_slurm.model import App, BoolArray, Cluster, FloatArray, Gpus, IntArray, JobKind, Sharing
from pal_slurm.policy.entitlement.division import Division, Together
from pal_slurm.policy.entitlement.level import CommonLevel
from pal_slurm.policy.entitlement.max_min import merge, needs
from pal_slurm.sim.engine import Run, Stage

SHARE, TIME, DEFICIT = range(3)


class Units:
    """Tables of what may run: jobs alone, and pairs of them."""

    def __init__(self, models: tuple[str, ...], sharing: Sharing, rows: int = 64) -> None:
        self._models, self._sharing = models, sharing
        self.book: FloatArray = np.zeros((3, rows, rows, len(models)))
        self.runs: BoolArray = np.zeros((rows, rows, len(models)), dtype=np.bool_)  # there: at any speed
        self.size: IntArray = np.zeros(rows, dtype=np.int64)  # GPUs; 0: nobody
        self.kind: IntArray = np.zeros(rows, dtype=np.int64)
        self.owed: BoolArray = np.zeros(rows, dtype=np.bool_)  # it was here when shares were made
        self._may: BoolArray = np.zeros(rows, dtype=np.bool_)  # it said that it may share
        self._kinds: dict[tuple[JobKind, bool], int] = {}
        self._apps: list[App] = []
        self.rates: FloatArray = np.zeros((0, 0, len(models)))  # steps/s of a kind beside a kind
        self.alone: FloatArray = np.zeros((0, len(models)))

    def add(self, app: App, gpus: int, *, shares: bool, time_s: float) -> int:
        """`time_s`: what counts as had from the first."""
        if self.size.all():
            self._grow()
        row = int(self.size.argmin())
        kind = self._kind(app, gpus, shares=shares)
        self.size[row], self.kind[row], self.owed[row], self._may[row] = gpus, kind, False, shares
        self.book[:, row] = self.book[:, :, row] = 0.0
        self.book[TIME, row] = self.book[TIME, :, row] = time_s
        with_whom = (self.size == gpus) & self._may if shares else np.zeros(len(self.size), dtype=np.bool_)
        other = self.kind
        both = (self.rates[kind, other] > 0) & (self.rates[other, kind] > 0) & with_whom[:, None]
        self.runs[row], self.runs[:, row] = both, both
        self.runs[row, row] = self.alone[kind] > 0
        return row

    def remove(self, row: int) -> None:
        self.size[row] = 0
        self.runs[row] = self.runs[:, row] = False

    def here(self) -> IntArray:
        return np.flatnonzero(self.size)

    def _grow(self) -> None:
        n = len(self.size)
        self.book = np.pad(self.book, ((0, 0), (0, n), (0, n), (0, 0)))
        self.runs = np.pad(self.runs, ((0, n), (0, n), (0, 0)))
        for name in ("size", "kind", "owed", "_may"):
            setattr(self, name, np.pad(getattr(self, name), (0, n)))

    def _kind(self, app: App, gpus: int, *, shares: bool) -> int:
        """Its number; the rates of one that is new beside all that were met before, and theirs beside it."""
        kind = JobKind(app.name, gpus)
        known = self._kinds.get((kind, shares))
        if known is not None:
            return known
        n = self._kinds[kind, shares] = len(self._apps)
        self._apps.append(app)
        self.alone = np.pad(self.alone, ((0, 1), (0, 0)))
        self.rates = np.pad(self.rates, ((0, 1), (0, 1), (0, 0)))
        for t, model in enumerate(self._models):
            self.alone[n, t] = rate(app, model)
            for (other, too), k in self._kinds.items():
                if shares and too and other.gpus == gpus:
                    self.rates[n, k, t] = rate(app, model) / self._sharing.factor(kind, other, model)
                    self.rates[k, n, t] = rate(self._apps[k], model) / self._sharing.factor(other, kind, model)
        return n


AT_A_TIME = 256  # of the units, the best first: these nearly always fill the GPUs

Unit = tuple[int, int]  # rows; of a job alone its own twice


class _Place(NamedTuple):
    """Where a unit runs in this round."""

    type: int
    gpus: Gpus
    since: float


class GavelPairs(GavelRounds):
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
        row = self._units.add(work.app, work.gpus, shares=work.shares, time_s=self._round_s / 2)
        self._runs[row], self._row[work.id] = run, row
        self._changed = True

    def ended(self, run: Run, gpus: Gpus) -> None:
        row = self._row.pop(run.work.id)
        for unit in [unit for unit in self._where if row in unit]:
            had = self._where.pop(unit)
            self._spent[had.type] += run.end - had.since
        del self._runs[row]
        self._units.remove(row)
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


class PairShares(NamedTuple):
    """What jobs are owed alone, and beside each other."""

    alone: FloatArray  # (jobs, pools) of its time
    beside: FloatArray  # (jobs, jobs, pools) of the time of both; each pair stands there twice


def central_pairs(division: Division) -> PairShares:
    """The same with GPUs that any two of one size may share; equal jobs and equal pairs get the same."""
    merged = merge(division)
    level = CommonLevel(division, merged, interior=True)
    doing, of, many = level.doing, merged.of, merged.many
    spent = np.maximum(level.solve(needs(division)[merged.first]).columns[: len(doing.pool)], 0.0)
    n, pools = len(many), len(division.gpus)
    alone, beside = np.zeros((n, pools)), np.zeros((n, n, pools))
    same, two = doing.jobs > 1, doing.other >= 0
    single = ~same & ~two
    alone[doing.one[single], doing.pool[single]] = spent[single] / many[doing.one[single]]
    a = doing.one[same]
    beside[a, a, doing.pool[same]] = spent[same] / (many[a] * (many[a] - 1) / 2)
    a, b, pool = doing.one[two], doing.other[two], doing.pool[two]
    beside[a, b, pool] = beside[b, a, pool] = spent[two] / (many[a] * many[b])
    by_job: FloatArray = beside[of[:, None], of[None, :]]
    by_job[np.arange(len(of)), np.arange(len(of))] = 0.0  # nobody shares with himself
    return PairShares(alone[of], by_job)
