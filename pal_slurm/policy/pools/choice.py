"""Which pool a waiting job takes, where it is not moved later. In: kinds of jobs, who waits and runs. Out: its pool.

A job that can't be moved keeps its pool until it ends. So it goes by prices (pricing.py): what a GPU's second costs it
and, where others wait, costs them. It takes the free pool that is cheapest, or waits for a cheaper one that is taken,
for a bounded time. When nobody else waits, the cheapest is the fastest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pal_slurm.model import TOLD, App, BoolArray, Cluster, FloatArray, Job, PoolCost, Trust, comm_of, step_time
from pal_slurm.policy.forecast import in_reach
from pal_slurm.policy.needs import Need, Needs
from pal_slurm.policy.pools.pricing import CROWD, NEARLY, shadow_prices

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner

MOST_KINDS = 256  # of speeds: the rest of a mixture is small
USUAL_S = 3600.0  # of a job on its best GPUs, where none waits that tells
MOST = 2.0  # a job waits for another pool that many times what it can gain there, whatever is forecast
LEAST_OWED = 0.01  # of all that a job is owed: less is none


@dataclass(frozen=True, slots=True)
class PoolOption:
    """A pool that a kind of job may have."""

    pool: int
    need: Need  # the same kind of job, there only
    step: float  # on median GPUs, by the equation
    kind: int  # of its nodes
    trust: Trust = TOLD


class PoolTaken(NamedTuple):
    """What a job does."""

    need: Need | None  # where it may start now; None: it waits
    until: float  # at latest
    weighed: tuple[PoolCost, ...]


class PoolMap:
    """The pools of a cluster, and what kinds of jobs may have of them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        usable = cluster.gpu_exists & cluster.node_ok[:, None]
        kinds: dict[tuple[int, ...], list[int]] = {}
        for row in np.flatnonzero(cluster.gpus_per_node).tolist():
            kinds.setdefault(tuple(np.unique(cluster.gpu_model[row][cluster.gpu_exists[row]]).tolist()), []).append(row)
        self._models: list[tuple[int, ...]] = list(kinds)  # a node of several models is a pool of its own
        self.kinds = ["+".join(cluster.models[m] for m in models) for models in self._models]
        self._nodes: list[BoolArray] = []
        for rows in kinds.values():
            mask = np.zeros(cluster.n_nodes, dtype=np.bool_)
            mask[rows] = True
            self._nodes.append(mask)
        self.gpus_of_kind = [float(usable[nodes].sum()) for nodes in self._nodes]
        self._pool: dict[tuple[str, int], int] = {}
        self.names: list[str] = []
        self.gpus: list[int] = []
        self.masks: list[BoolArray] = []
        found: dict[bytes, int] = {}
        for name, part in {**cluster.partitions, "": np.ones(cluster.n_nodes, dtype=np.bool_)}.items():
            for kind, nodes in enumerate(self._nodes):
                mask = part & nodes
                if not mask.any():
                    continue
                if mask.tobytes() not in found:
                    found[mask.tobytes()] = len(self.names)
                    self.names.append(f"{name}/{self.kinds[kind]}" if name else self.kinds[kind])
                    self.gpus.append(int(usable[mask].sum()))
                    self.masks.append(mask)
                self._pool[name, kind] = found[mask.tobytes()]

    def options(self, need: Need, app: App, needs: Needs) -> tuple[PoolOption, ...]:
        """Pools whose speed is known for it; none: it is told nothing of models, or has no choice."""
        if not app.base:
            return ()
        found: dict[int, PoolOption] = {}
        for area in need.areas:
            for kind, nodes in enumerate(self._nodes):
                pool = self._pool.get((area.name, kind))
                inside = None if pool is None or pool in found else needs.inside(need, area, nodes)
                step = None if inside is None else self._step(app, kind, inside)
                if pool is None or inside is None or step is None:
                    continue
                trusts = [app.trust(self._cluster.models[m]) for m in self._models[kind]]
                found[pool] = PoolOption(pool, inside, step, kind, max(trusts))
        return tuple(found.values()) if len(found) > 1 else ()

    def by_kind(self, need: Need, app: App, needs: Needs) -> tuple[float, ...]:
        """Its speed on nodes of each kind over its best; 0: they would not do. All alike where it is not known."""
        steps: dict[int, float | None] = {}
        for area in need.areas:
            for kind, nodes in enumerate(self._nodes):
                inside = None if kind in steps else needs.inside(need, area, nodes)
                if inside is not None:
                    steps[kind] = self._step(app, kind, inside)
        known = [step for step in steps.values() if step is not None]
        if len(known) < len(steps):
            return tuple(float(kind in steps) for kind in range(len(self._nodes)))
        best = min(known, default=1.0)
        return tuple(
            round(best / (steps[kind] or best), 6) if kind in steps else 0.0 for kind in range(len(self._nodes))
        )

    def _step(self, app: App, kind: int, inside: Need) -> float | None:
        bases = [app.base.get(self._cluster.models[m]) for m in self._models[kind]]
        known = [base for base in bases if base is not None]
        if len(known) < len(bases):
            return None
        return step_time(max(known), 1.0, float(comm_of(app, inside.narrowest)))


class PoolChoice:
    """In one plan: prices as of its beginning, and who has chosen to wait for what."""

    def __init__(
        self, planner: Planner, pools: PoolMap, options: dict[tuple[Need, int], tuple[PoolOption, ...]]
    ) -> None:
        self._planner, self._pools, self._options = planner, pools, options
        self._prices: Sequence[float] | None = None
        self._ahead = [0] * len(pools.names)
        self._sorted: dict[Need, FloatArray] = {}
        self.soonest = math.inf  # when the first of those who wait gives in

    def of(self, need: Need, app: App) -> tuple[PoolOption, ...]:
        key = (need, id(app))
        if key not in self._options:
            self._options[key] = self._pools.options(need, app, self._planner.floor.needs)
        return self._options[key]

    def takes(self, job: Job, need: Need, app: App, fits: Callable[[Need], bool]) -> PoolTaken:
        """`fits`: whether there is room now. Where it has no choice, or no pool has room, nothing is chosen."""
        options = self.of(need, app)
        if not any(fits(option.need) for option in options):
            return PoolTaken(need, math.inf, ())
        if self._prices is None:
            self._prices = self._price()
        gpus = job.shape.least_gpus if job.shape else 1
        owed = self._owed(job, options)
        if any(fits(option.need) for option in owed):
            options = owed
        elif (until := self._waits_for_its_own(job, options, owed, gpus, fits)) is not None:
            return PoolTaken(None, until, ())
        best = min(option.step for option in options)
        runs_s = self._runs_s(job, app)
        likely_s = self._planner.facts.run_times.of(job, app.name).seconds  # where little is known the mean is long
        alone = [likely_s * option.step / best for option in options]
        runs = [runs_s * option.step / best * (1.0 + self._prices[option.pool]) for option in options]
        free, now = _look(options, runs, fits)
        if now is None:
            return PoolTaken(need, math.inf, ())
        waits = [self._wait(o, gpus) if there is False else 0.0 for o, there in zip(options, free, strict=True)]
        costs = [run + wait for run, wait in zip(runs, waits, strict=True)]
        weighed = tuple(self._told(*row, best) for row in zip(options, costs, waits, free, strict=True))
        # Waiting must pay for the job itself: only where it would be done sooner than where it can start now.
        worth = [i for i, there in enumerate(free) if there or (there is False and waits[i] + alone[i] < alone[now])]
        wanted = min(worth, key=costs.__getitem__)
        near = [i for i, there in enumerate(free) if there and costs[i] <= costs[wanted] * (1 + NEARLY)]
        if near:
            return PoolTaken(options[self._of_equals(options, near)].need, math.inf, weighed)
        doubt = max(options[now].trust.doubt, options[wanted].trust.doubt)  # nobody waits for what may be no better
        if costs[now] <= costs[wanted] * (1 + NEARLY) * (1 + doubt):
            return PoolTaken(options[now].need, math.inf, weighed)
        until = self._declines(job, options[wanted].pool, gpus, MOST * (alone[now] - alone[wanted]))
        return PoolTaken(options[now].need if until is None else None, until or math.inf, weighed)

    def _owed(self, job: Job, options: Sequence[PoolOption]) -> tuple[PoolOption, ...]:
        """Those of which it is owed something, where an entitlement says so and not of all; else none."""
        due = self._planner.facts.due
        if due is None or list(due.pools) != self._pools.kinds:  # it was worked out when there were other models
            return ()
        if (shares := due.shares.get(job.key)) is None:
            return ()
        owed = tuple(option for option in options if shares[option.kind] > LEAST_OWED * sum(shares))
        return owed if len(owed) < len(options) else ()

    def _waits_for_its_own(
        self, job: Job, options: Sequence[PoolOption], owed: Sequence[PoolOption], gpus: int,
        fits: Callable[[Need], bool],
    ) -> float | None:  # fmt: skip
        """Until when it leaves to others what it is not owed: none of its own has room, and some other has."""
        if not owed or not any(fits(option.need) for option in options if option not in owed):
            return None
        return self._declines(job, owed[0].pool, gpus, self._planner.knowledge.pools.wait_s)

    def _declines(self, job: Job, pool: int, gpus: int, most_s: float) -> float | None:
        """It waits for that pool until then; None: it may not, or not any more."""
        planner = self._planner
        since = planner.declines_since(job)
        since = planner.now if since is None else since
        until = since + most_s
        if until <= planner.now or planner.facts.rivals(job, since):
            return None
        planner.declining[job.key] = since
        self._ahead[pool] += gpus
        self.soonest = min(self.soonest, until)
        return until

    def _wait(self, option: PoolOption, gpus: int) -> float:
        """Until so many of its GPUs are given back, behind those who wait for them already."""
        times = self._times(option)
        if not len(times):
            return math.inf
        rounds, last = divmod(self._ahead[option.pool] + gpus - 1, len(times))
        return float(times[last]) - self._planner.now + rounds * self._usual_s

    def _times(self, option: PoolOption) -> FloatArray:
        """When it can probably have each of its GPUs, the first one first."""
        need = option.need
        if need not in self._sorted:
            at = self._planner.horizon.expected()
            (area,), (_, _, *room) = need.areas, need.ways[0]
            at = in_reach(at, at, area, (room[0], room[1]), self._planner)[self._pools.masks[option.pool]]
            at = at[np.isfinite(at)]
            at.sort()
            self._sorted[need] = at
        return self._sorted[need]

    def _told(self, o: PoolOption, cost: float, wait: float, free: bool | None, best: float) -> PoolCost:
        assert self._prices is not None
        return PoolCost(
            self._pools.names[o.pool], o.step, best / o.step, *o.trust, self._prices[o.pool], cost, wait, free
        )

    def _of_equals(self, options: Sequence[PoolOption], near: Sequence[int]) -> int:
        """Of pools that cost about the same the one that others want least, where the job itself hardly minds."""
        assert self._prices is not None
        prices, fastest = self._prices, min(options[i].step for i in near)
        mild = [i for i in near if options[i].step <= fastest * (1 + NEARLY)]
        return min(mild, key=lambda i: (prices[options[i].pool], options[i].step))

    def _runs_s(self, job: Job, app: App) -> float:
        """On its best GPUs."""
        return self._planner.facts.run_times.of(job, app.name).mean

    def _price(self) -> list[float]:
        """Of a GPU's second in each pool, in seconds of those who wait."""
        planner = self._planner
        kinds: Counter[tuple[float, ...]] = Counter()
        waiting, work_s, many = 0, 0.0, 0
        for group in planner.queue.groups.values():
            waiting += len(group.line)
            rates = self._rates(group.need, group.app)
            if rates is not None:
                kinds[rates] += len(group.line) * group.gpus
                work_s += self._runs_s(group.line[0].job, group.app) * len(group.line)
                many += len(group.line)
        for entry in planner.queue.odd.values():
            tasks = len(entry.place.job.array_tasks) or 1
            need = planner.floor.needs.of(entry.place.job) if entry.place.job.gpu_job else None
            rates = None if need is None else self._rates(need, entry.app)
            waiting += tasks if need is not None else 0
            if need is not None and rates is not None:
                kinds[rates] += tasks * need.shape.least_gpus
        for job, where in planner.running.values():
            need = planner.floor.needs.of(job)
            rates = None if need is None else self._rates(need, self._app_of(job))
            if rates is not None:
                kinds[rates] += where.n_gpus
        self._usual_s = work_s / many if many else USUAL_S
        gpus = np.array(self._pools.gpus, dtype=float)
        total = max(1.0, float(planner.floor.usable.sum()))
        crowd = CROWD * max(0, waiting - 1) / total
        if not crowd or not kinds:
            return [0.0] * len(gpus)
        most = kinds.most_common(MOST_KINDS)
        shadow = shadow_prices(np.array([kind for kind, _ in most]), np.array([float(n) for _, n in most]), gpus)
        return [float(price) for price in crowd * shadow]

    def _app_of(self, job: Job) -> App:
        """Of one that runs: as it came, where the planner was told."""
        app = self._planner.queue.left.get(job.id)
        return self._planner.knowledge.apps.get(job.hint.app, job.user) if app is None else app

    def _rates(self, need: Need, app: App) -> tuple[float, ...] | None:
        """By pool, over its best."""
        options = self.of(need, app)
        if not options:
            return None
        best = min(option.step for option in options)
        rates = [0.0] * len(self._pools.names)
        for option in options:
            rates[option.pool] = round(best / option.step, 6)
        return tuple(rates)


def _look(
    options: Sequence[PoolOption], runs: Sequence[float], fits: Callable[[Need], bool]
) -> tuple[list[bool | None], int | None]:
    """Where there is room, cheapest first, as far as that can matter (None: not looked at); the cheapest with room."""
    free: list[bool | None] = [None] * len(options)
    first: int | None = None
    for i in sorted(range(len(options)), key=runs.__getitem__):
        if first is not None and runs[i] > runs[first] * (1 + NEARLY):
            break
        free[i] = fits(options[i].need)
        if free[i] and first is None:
            first = i
    return free, first
