"""`pools`: who runs, then in which pool, with the cost of a move in it, then on which GPUs of the pool.

Who waits or would run badly may have the GPUs of another, too, if both said so.
For clusters of several GPU models. Jobs that may not be moved choose a pool by its price; they may wait for a better.
`pools-learned`: how fast applications are on each model is not told; it is seen as they run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pal_slurm.model import NOBODY_SHARES, Cluster, Gpus, ScoreTable, Sharing, speeds_of
from pal_slurm.policy.order.las import LeastAttained
from pal_slurm.policy.pools.claims import relative_rates
from pal_slurm.policy.pools.couples import Couples
from pal_slurm.policy.pools.housing import Housing
from pal_slurm.policy.pools.pricing import Chooser, Market
from pal_slurm.policy.pools.ratebook import SHOWN_S, RateBook
from pal_slurm.policy.pools.where import assign
from pal_slurm.policy.pools.who import LEVELS, choose, level
from pal_slurm.policy.seams import Contender, Mover, Order, WhoRuns, movings


class Pooling:
    """For one cluster and what is known of it."""

    def __init__(
        self,
        order: Order,
        cluster: Cluster,
        scores: ScoreTable,
        cost_s: float,
        *,
        learns: bool,
        sharing: Sharing = NOBODY_SHARES,
    ) -> None:
        self.wake_at = math.inf
        self._couples = Couples(cluster.models, sharing, cost_s)
        self._order, self._models, self._cost_s = order, cluster.models, cost_s
        self._here: dict[int, Contender] = {}
        self._rates: dict[int, tuple[float, ...]] = {}  # by job
        self._cluster, self._speeds = cluster, speeds_of(cluster, scores)
        self._housing = Housing(cluster, scores, cost_s)
        self._gpus = self._housing.gpus
        self._left: list[tuple[int, float, float]] = []  # ended since the last plan: (GPUs, rate, since)
        self._market = Market(self._gpus)
        self._book = RateBook(cluster.models) if learns else None
        self._read = -1  # the version of the book that rates are of
        self._shown: dict[int, tuple[float, float] | None] = {}  # who runs: when, steps left; None: known
        self._levels: dict[int, tuple[int, float]] = {}  # of each job, and until when it is at least in that
        self._bound = 0  # jobs here that can't be moved

    def arrive(self, here: Contender) -> None:
        job = here.job.id
        self._here[job] = here
        rates = self._rates[job] = self._rates_of(here)
        self._market.arrived(rates, here.gpus)
        self._bound += not here.movable
        if not self._couples.arrived(here, self._housing):
            self._housing.arrived(here)

    def ended(self, here: Contender) -> None:
        job = here.job.id
        since = self._couples.since.get(self._couples.guest.get(job, job), math.inf)
        guest = self._couples.ended(job)
        pool = self._housing.pool_of.get(job)
        if pool is not None:
            self._left.append((here.gpus, self._rates[job][pool], self._housing.since.get(job, math.inf)))
            self._leaves(job)
        if guest is not None:  # it has them to itself from now on
            self._housing.arrived(self._here[guest])
            self._housing.since[guest] = since
        self._bound -= not here.movable
        del self._here[job], self._rates[job]
        self._levels.pop(job, None)

    def learn(self, scores: ScoreTable) -> None:
        self._housing.learn(scores)
        self._speeds = speeds_of(self._cluster, scores)

    def settled(self) -> Iterable[tuple[int, Gpus]]:
        return self._housing.settled()

    def recall(self, settled: Mapping[int, Gpus]) -> None:
        self._housing.recall(settled)

    def act(self, now: float) -> Mapping[int, Gpus]:
        self._look(now)
        housing = self._housing
        couples = self._couples
        couples.look(now, self._here, housing.pool_of, self._alone)
        line = self._in_order(now)
        claims = [housing.claim(here, self._rates[here.job.id], now) for here in couples.in_line(line)]
        if couples.guest:
            claims = [couples.bound(claim, self._here) for claim in claims]
        waiting = len(self._here) - len(housing.pool_of) - len(couples.host)
        chooser = Chooser(self._market, waiting) if self._bound else None
        chosen = choose(claims, self._gpus, chooser)
        pools = assign(chosen, self._gpus, now, self._cost_s, self._market.shadow.tolist())
        then = {claim.job: pool for claim, pool in zip(chosen, pools, strict=True) if pool >= 0}
        self.wake_at = math.inf
        if who := couples.sharers(line, self._rates):
            couples.divided(then, housing.pool_of, who)
            movable = {here.job.id for here in line if here.movable}
            if couples.seated(then, housing.pool_of, who, movable, now) and waiting:
                self.wake_at = now  # for what came free
        for job, pool in list(housing.pool_of.items()):
            if then.get(job) != pool:
                self._leaves(job)
        where = dict(housing.put({job: (self._here[job], pool) for job, pool in then.items()}, now))
        self.wake_at = min(self.wake_at, couples.look(now, self._here, housing.pool_of, self._alone))
        return where | {guest: where[host] for guest, host in couples.host.items()}

    def _alone(self, here: Contender) -> float:
        return self._speeds.step(here.app, here.held)

    def _leaves(self, job: int) -> None:
        self._housing.left(job)
        self._shown.pop(job, None)
        self._levels.pop(job, None)

    def _rates_of(self, here: Contender) -> tuple[float, ...]:
        rates = relative_rates(here.app, self._models)
        can = tuple(rate if size >= here.gpus else 0.0 for rate, size in zip(rates, self._gpus, strict=True))
        if self._book is None:
            return can
        told = self._book.rates((here.app.name, here.gpus), here.job.user)
        return tuple(rate.hoped if there else 0.0 for rate, there in zip(told, can, strict=True))

    def _look(self, now: float) -> None:
        """What jobs that ended or run have shown."""
        for gpus, rate, since in self._left:
            if since < now:
                self._market.ended(gpus * rate * (now - since))
        self._left.clear()
        if self._book is None:
            return
        for job, since in self._housing.since.items():
            self._watch(job, since, now)
        if self._book.version != self._read:
            self._read = self._book.version
            self._rates = {job: self._rates_of(here) for job, here in self._here.items()}

    def _watch(self, job: int, since: float, now: float) -> None:
        """A job's step time, by what it has done between two looks."""
        shown = self._shown.get(job, (math.inf, 0.0))
        if self._book is None or shown is None or now < since + SHOWN_S:
            return
        if self._couples.beside(job) is not None:
            self._shown.pop(job, None)  # what it shows beside another is not its own speed
            return
        here = self._here[job]
        rest = here.progress(now).rest_steps
        at, before = shown
        if at == math.inf:
            self._shown[job] = (now, rest)
        elif now >= at + SHOWN_S and before > rest:
            self._shown[job] = None
            pool = self._housing.pool_of[job]
            self._book.saw((here.app.name, here.gpus), pool, here.job.user, (now - at) / (before - rest))

    def _in_order(self, now: float) -> list[Contender]:
        here, key = self._here.values(), self._order.key
        if not isinstance(self._order, LeastAttained):
            return sorted(here, key=lambda one: key(one.job, one.progress(now)))
        keys = []
        for one in here:
            known = self._levels.get(one.job.id)
            if known is None or now >= known[1]:
                known = self._level(one, now)
            keys.append((known[0], not one.held, one.job.submit, one.job.id, one))
        keys.sort()  # numbers of jobs differ, so nothing behind them is compared
        return [one for *_, one in keys]

    def _level(self, here: Contender, now: float) -> tuple[int, float]:
        done_s = here.progress(now).done_s * here.gpus
        reached = level(done_s)
        # no sooner than this is it in the next, if its GPUs are twice as fast as the median
        known = self._levels[here.job.id] = (reached, now + (LEVELS[reached] - done_s) / here.gpus / 2)
        return known


class Pools:
    def __init__(self, *, learns: bool, sharing: Sharing = NOBODY_SHARES) -> None:
        """`sharing`: what is known of jobs that have the same GPUs."""
        self.name = "pools-learned" if learns else "pools"
        self._learns, self._sharing = learns, sharing

    def mover(self, who: WhoRuns, order: Order, cluster: Cluster, scores: ScoreTable, cost_s: float) -> Mover:
        """It walks the order itself: which pools a job may have decides who runs."""
        return Pooling(order, cluster, scores, cost_s, learns=self._learns, sharing=self._sharing)


movings.register("pools", lambda *_: Pools(learns=False))
movings.register("pools-learned", lambda *_: Pools(learns=True))
