"""When waiting jobs will probably start. In: one look at the queue, the order of the plan, run times. Out: forecasts.

The queue is played forward on nodes with so many GPUs each: jobs start in the order as soon as they fit, the first that
does not fit gets a reservation by the time limits of those who run, and later jobs start where that stands. It is
played some times, each time with other run times, drawn from what is known of them; what is told is the median of the
starts, and the range in which nine of ten of them lie. Who will come yet is not known: the range is longer for it. CPUs
and memory are left out. A job that is held, or waits for something that no free GPU can give, has no forecast.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pal_slurm.model import (
    App,
    BoolArray,
    FloatArray,
    Gpus,
    IntArray,
    Job,
    Knowledge,
    Placement,
    RunEstimate,
    RunTimes,
    Snapshot,
    flat,
    speeds_of,
)
from pal_slurm.policy.easy import limit
from pal_slurm.policy.floor import still_there
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.seams import Fill
from pal_slurm.policy.turn import Turn, turn_of

MOST = 500  # jobs, and tasks of arrays, from the first on
DRAWS, LEAST_DRAWS = 25, 5
EARLY, LATE = 5.0, 95.0  # per cent of the draws
COMERS = 1.3  # the wait until the late end of the range is longer by that: for who comes later and passes by backfill
AGAIN_S = 300.0  # where nodes are reserved for later: what a job may be given is asked anew after so long
FREE = -math.inf  # among the times at which GPUs are free
NORMAL = NormalDist()
OUTRUN = 0.98  # of jobs like it ended sooner: they tell nothing of the rest


class StartForecast(NamedTuple):
    """Epoch seconds."""

    expected: float
    early: float
    late: float


@dataclass(frozen=True, slots=True)
class Ahead:
    """The queue as a plan left it."""

    snapshot: Snapshot
    knowledge: Knowledge
    run_times: RunTimes
    fill: Fill
    order: Sequence[int]  # the waiting jobs
    declining: Mapping[int, float] = field(default_factory=dict)  # could start, and rather wait: until then at most


def start_forecasts(
    ahead: Ahead, over: Callable[[], bool] = lambda: False, draws: int = DRAWS
) -> dict[int, StartForecast]:
    """By job; of an array the next of its tasks. `over`: whether it has taken too long, fewer draws do then."""
    site, now = _Site(ahead), ahead.snapshot.taken
    starts: list[dict[int, float]] = []
    for seed in range(draws):
        played = _Play(site, np.random.default_rng([seed, int(now)])).run(over)
        if played is None:
            break
        starts.append(played)
    if len(starts) < min(LEAST_DRAWS, draws):
        return {}
    told = {}
    for job in site.jobs:
        at = np.array([played.get(job, math.inf) for played in starts])
        if np.isfinite(at).all():
            early, expected, late = np.percentile(at, (EARLY, 50.0, LATE)).tolist()
            told[job] = StartForecast(expected, early, now + COMERS * (late - now))
    return told


class _WaitingKind:
    """Waiting jobs that are alike: where the first of them does not fit none does."""

    def __init__(self, job: Job, app: App) -> None:
        self.job, self.app = job, app
        self.limit_s = limit(job)
        self.places: list[tuple[int, int]] = []  # in the order, and the job's id
        self.ready = -math.inf  # its user's own begin time
        self.declines: float | None = None  # until then at most
        self.run_time = RunEstimate(0.0, 0.0)


class _RunningJob(NamedTuple):
    """A running job."""

    array: int | None
    spots: tuple[tuple[int, tuple[int, ...]], ...]  # rows and slots
    ran_s: float
    run_time: RunEstimate
    ended: float  # the share of jobs like it that have ended by then
    limit_at: float


class _Site:
    """What all draws have alike."""

    def __init__(self, ahead: Ahead) -> None:
        self.snapshot, self.ahead = ahead.snapshot, ahead
        self.now, self.cluster = ahead.snapshot.taken, ahead.snapshot.cluster
        self.usable: BoolArray = self.cluster.gpu_exists & self.cluster.node_ok[:, None]
        self.has: IntArray = self.usable.sum(axis=1)
        # A GPU that is not free and that no job has: nobody can tell.
        self.limit_at: FloatArray = np.where(self.usable & self.cluster.gpu_free, FREE, math.inf)
        self._speeds = speeds_of(self.cluster, ahead.knowledge.scores)
        self.runs = [run for job in ahead.snapshot.running if job.gpu_job for run in self._running(job)]
        for run in self.runs:
            for row, slots in run.spots:
                self.limit_at[row, list(slots)] = np.where(self.usable[row, list(slots)], run.limit_at, math.inf)
        self._needs: dict[float, Needs] = {}
        self._asked: dict[tuple[float, int], Need] = {}
        self.windows = sorted({float(r.end) for r in ahead.snapshot.reservations if r.end > self.now})
        self.jobs: list[int] = []
        self.kinds = self._waiting()

    def slow(self, app: App, gpus: Gpus) -> float:
        """How much longer it runs there than on the GPUs that run times are told for."""
        return self._speeds.step(app, gpus) / min(app.base.values(), default=1.0)

    def _running(self, job: Job) -> Iterator[_RunningJob]:
        where = Placement(job.nodes, job.holds, False)
        spots = tuple((row, slots) for row, slots in still_there(where, self.cluster) if slots)
        if not spots:
            return
        app = self.ahead.knowledge.apps.get(job.hint.app, job.user)
        time, ran_s = self.ahead.run_times.of(job, app.name), max(self.now - (job.start or self.now), 0.0)
        if len(spots) == len(job.nodes):
            time = RunEstimate(time.seconds * self.slow(app, flat(where, self.cluster)), time.doubt)
        ended = NORMAL.cdf(math.log(ran_s / time.seconds) / time.doubt) if ran_s else 0.0
        until = math.inf if job.end is None else max(float(job.end), self.now + 1.0)
        yield _RunningJob(job.array_id, spots, ran_s, time, ended, until)

    def _waiting(self) -> list[_WaitingKind]:
        """The first ones of the order that may start at all."""
        kinds: dict[tuple[object, ...], _WaitingKind] = {}
        jobs, place = {job.id: job for job in self.snapshot.pending if job.gpu_job}, 0
        for number in self.ahead.order:
            job = jobs.get(number)
            if job is None or place >= MOST:
                continue
            ready = self._ready(job)
            if ready is None:
                continue
            app = self.ahead.knowledge.apps.get(job.hint.app, job.user)
            own = number in self.ahead.declining or ready > self.now or job.array_id is not None or job.array_tasks
            same = (id(self.need(job, self.now)), limit(job), job.user, job.name, id(app), number if own else None)
            kind = kinds.get(same)
            if kind is None:
                kind = kinds[same] = _WaitingKind(job, app)
                kind.ready, kind.declines = ready, self.ahead.declining.get(number)
                kind.run_time = self.ahead.run_times.of(job, app.name)
            self.jobs.append(number)
            for _ in range(min(max(len(job.array_tasks), 1), MOST - place)):
                kind.places.append((place, number))
                place += 1
        return list(kinds.values())

    def _ready(self, job: Job) -> float | None:
        """When it begins to compete; None: nobody can tell."""
        turn, _ = turn_of(job, self.now)
        if turn is Turn.ASIDE:
            return None
        if turn is not Turn.LATER:
            return self.now
        return None if job.limited or job.dependency else job.own_begin(self.now)

    def need(self, job: Job, when: float) -> Need:
        """What it may be given if it starts then."""
        since = self.now
        if self.windows:
            since += (when - self.now) // AGAIN_S * AGAIN_S
            since = max([since, *(end for end in self.windows if end <= when)])
        key = (since, job.id)
        if key not in self._asked:
            needs = self._needs.get(since)
            if needs is None:
                pools = self.ahead.knowledge.pools
                needs = self._needs[since] = Needs(self.cluster, self.snapshot.reservations, since, pools)
            need = needs.of(job)
            self._asked[key] = needs.guess(job) if need is None or not need.ways else need
        return self._asked[key]


class _Play:
    """One draw."""

    def __init__(self, site: _Site, rng: np.random.Generator) -> None:
        self.site, self.now, self._rng = site, site.now, rng
        self.limit_at = site.limit_at.copy()
        self.free: IntArray = (self.limit_at == FREE).sum(axis=1)
        self.tasks = Counter(run.array for run in site.runs if run.array is not None)
        self.starts: dict[int, float] = {}
        self._next = [0] * len(site.kinds)
        self._ready = [self._ready_at(kind) for kind in site.kinds]
        self._number = count()  # no two ends compare alike
        self._ends = [(self._ends_at(run), next(self._number), run.array, run.spots) for run in site.runs]
        self._wakes = sorted({at for at in (*self._ready, *site.windows) if at > self.now}, reverse=True)
        heapify(self._ends)

    def run(self, over: Callable[[], bool]) -> dict[int, float] | None:
        """The first start of each job; None: it took too long."""
        left = sum(len(kind.places) for kind in self.site.kinds)
        while True:
            left -= self._walk()
            if not left or not (self._ends or self._wakes):
                return self.starts
            if over():
                return None
            self._advance()

    def _ready_at(self, kind: _WaitingKind) -> float:
        """Who waits for better GPUs takes some between now and the end of its patience."""
        if kind.declines is None:
            return kind.ready
        return self.now + float(self._rng.random()) * max(kind.declines - self.now, 0.0)

    def _ends_at(self, run: _RunningJob) -> float:
        if run.ended < OUTRUN:
            chance = run.ended + (1.0 - run.ended) * float(self._rng.uniform(1e-6, 1.0 - 1e-6))
            lasts = run.run_time.seconds * math.exp(run.run_time.doubt * NORMAL.inv_cdf(chance))
        else:
            lasts = run.ran_s * (1.0 + math.exp(float(self._rng.standard_normal())))
        return min(max(self.now + lasts - run.ran_s, self.now + 1.0), run.limit_at)

    def _advance(self) -> None:
        """To the next moment at which something changes; what ends soon after it counts to it."""
        at = min(self._ends[0][0] if self._ends else math.inf, self._wakes[-1] if self._wakes else math.inf)
        if at == math.inf:
            self._ends.clear()
            return
        self.now = at + min((at - self.site.now) / 200.0, 60.0)
        while self._wakes and self._wakes[-1] <= self.now:
            self._wakes.pop()
        while self._ends and self._ends[0][0] <= self.now:
            _, _, array, spots = heappop(self._ends)
            if array is not None:
                self.tasks[array] -= 1
            for row, slots in spots:
                back = [slot for slot in slots if self.site.usable[row, slot]]
                self.limit_at[row, back] = FREE
                self.free[row] += len(back)

    def _walk(self) -> int:
        """All that may start now, in the order."""
        kinds, started = self.site.kinds, 0
        agenda = [
            (kind.places[self._next[i]][0], i)
            for i, kind in enumerate(kinds)
            if self._next[i] < len(kind.places) and self._ready[i] <= self.now
        ]
        heapify(agenda)
        room = _Moment(self)
        heads: Counter[tuple[str, ...]] = Counter()
        while agenda:
            _, i = heappop(agenda)
            kind, fill = kinds[i], self.site.ahead.fill
            if kind.job.array_limit is not None and self.tasks[kind.job.array_id or 0] >= kind.job.array_limit:
                continue
            need = self.site.need(kind.job, self.now)
            spots = room.fit(need, kind.limit_s)
            if spots is None:
                if heads[kind.job.partitions] < fill.reserve:
                    heads[kind.job.partitions] += 1
                    kept = room.keep(need)
                    if fill.strict and kept:
                        break
                continue
            self._start(kind, kind.places[self._next[i]][1], *spots)
            room.taken(*spots, kind.limit_s)
            started += 1
            self._next[i] += 1
            if self._next[i] < len(kind.places):
                heappush(agenda, (kind.places[self._next[i]][0], i))
        return started

    def _start(self, kind: _WaitingKind, job: int, rows: list[int], gpus: int) -> None:
        self.starts.setdefault(job, self.now)
        site = self.site
        slots = [tuple(np.flatnonzero(self.limit_at[row] == FREE)[:gpus].tolist()) for row in rows]
        width, time = site.cluster.width, kind.run_time
        slow = site.slow(kind.app, tuple(row * width + s for row, mine in zip(rows, slots, strict=True) for s in mine))
        lasts = time.seconds * slow * math.exp(time.doubt * float(self._rng.standard_normal()))
        for row, mine in zip(rows, slots, strict=True):
            self.limit_at[row, list(mine)] = self.now + kind.limit_s
        self.free[rows] -= gpus
        array = kind.job.array_id if kind.job.array_limit is not None else None
        if array is not None:
            self.tasks[array] += 1
        end = self.now + max(min(lasts, kind.limit_s), 1.0)
        heappush(self._ends, (end, next(self._number), array, tuple(zip(rows, slots, strict=True))))


class _Moment:
    """What is free at one moment, and what is kept for those who head the queue."""

    def __init__(self, play: _Play) -> None:
        self._play, self._now = play, play.now
        self._free = play.free.copy()
        self._held: IntArray | None = None  # of that, for those who stay beyond the start of a head
        self._soonest = math.inf
        self._none: set[tuple[int, bool]] = set()  # needs for which there is no room; for those who stay beyond it

    def fit(self, need: Need, limit_s: float) -> tuple[list[int], int] | None:
        """On which nodes so many GPUs each are free for it: the fullest ones."""
        beyond = self._held is not None and self._now + limit_s > self._soonest
        if (id(need), False) in self._none or (id(need), beyond) in self._none:
            return None
        free = self._held if beyond and self._held is not None else self._free
        for area in need.areas:
            for nodes, gpus, _, _ in need.ways:
                fits = free >= gpus if area.mask is None else (free >= gpus) & area.mask
                rows = np.flatnonzero(fits)
                if len(rows) >= nodes:
                    return sorted(rows[np.argsort(free[rows], kind="stable")[:nodes]].tolist()), gpus
        self._none.add((id(need), beyond))
        return None

    def taken(self, rows: list[int], gpus: int, limit_s: float) -> None:
        self._free[rows] -= gpus
        if self._held is not None:
            self._held[rows] -= gpus if self._now + limit_s > self._soonest else 0
            np.minimum(self._held, self._free, out=self._held)

    def keep(self, need: Need) -> bool:
        """The earliest start that time limits promise; where they promise none, nodes that nobody else may have."""
        best: tuple[float, IntArray, int] | None = None
        at = np.sort(self._play.limit_at, axis=1)
        for area in need.areas:
            for nodes, gpus, _, _ in need.ways:
                there = self._play.site.has >= gpus if area.mask is None else (self._play.site.has >= gpus) & area.mask
                rows = np.flatnonzero(there)
                if len(rows) < nodes:
                    continue
                rows = rows[np.argsort(at[rows, gpus - 1], kind="stable")[:nodes]]
                start = max(float(at[rows[-1], gpus - 1]), self._now)
                if best is None or start < best[0]:
                    best = start, rows, gpus
        if best is None:
            return False
        start, rows, gpus = best
        if start == math.inf:
            self._free[rows] = 0
        held = self._free.copy() if self._held is None else self._held
        then = (self._play.limit_at[rows] <= start).sum(axis=1) - gpus
        held[rows] = 0 if start == math.inf else np.minimum(held[rows], np.maximum(then, 0))
        self._held = held
        self._soonest = min(self._soonest, start)
        return True
