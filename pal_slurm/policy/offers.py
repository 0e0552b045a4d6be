"""What a job is offered, and whether it declines. In: a kind of job, a placement. Out: an offer, a wait.

Nobody waits for what can't come: an offer is compared with the best that there would be if every GPU were free.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pal_slurm.model import App, Factors, Job, Placement, Reason, comm_of, flat
from pal_slurm.policy.easy import Easy
from pal_slurm.policy.forecast import better_than
from pal_slurm.policy.line import Key
from pal_slurm.policy.needs import Need
from pal_slurm.policy.patience.none import NoPatience
from pal_slurm.policy.seams import Offer, Promised, Settled

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner


class Declines(NamedTuple):
    reason: Reason
    until: float


class Offers:
    """In one plan."""

    def __init__(self, planner: Planner, easy: Easy) -> None:
        self._planner, self._easy = planner, easy
        self.soonest = math.inf  # when the first of those who declined gives in
        c = planner.composition
        self._patience, self.habits = c.patience, c.patience.habits
        self.patient = not (isinstance(c.patience, NoPatience) or c.fill.strict)
        self._settled: list[Settled] = []
        self._last: tuple[App, Placement, Factors] | None = None

    def step(self, app: App, where: Placement) -> float:
        """Seconds there, by the one equation."""
        return self._factors(app, where).step_time

    def _factors(self, app: App, where: Placement) -> Factors:
        """What is offered is most often taken next: its factors are kept until then."""
        last = self._last
        if last is None or last[0] is not app or last[1] is not where:
            planner = self._planner
            self._last = last = (app, where, planner.speeds.factors(app, flat(where, planner.cluster)))
        return last[2]

    def of(self, need: Need, app: App, where: Placement) -> Offer:
        """The same for all jobs of a kind."""
        last = self._planner.offered.get((need, id(app)))
        if last is not None and last[0] is where:
            return last[1]
        planner = self._planner
        f = self._factors(app, where)
        span_cost = f.comm / float(comm_of(app, need.narrowest))
        slowdown = f.step_time / planner.best(need, app)
        offer = Offer(f.tier, slowdown, 0.0, 0.0, span_cost, need.narrowest, where.n_gpus)
        planner.offered[need, id(app)] = (where, offer)
        return offer

    def badness(self, need: Need, app: App, where: Placement) -> float:
        """Who declined one offer is asked again when there is one of less."""
        offer = self.of(need, app, where)
        return float(offer.tier) if self.habits.by_tier else offer.slowdown

    def declines(self, job: Job, need: Need, app: App, where: Placement, key: Key) -> Declines | None:
        """Not where nobody could use meanwhile what it leaves, or somebody would who takes his turn from nobody."""
        if not self.patient:
            return None
        planner, now = self._planner, self._planner.now
        since = float(job.submit) if self.habits.since_submit else planner.declines_since(job)
        if since is None:
            since = now
        promised = planner.promised.get(job.key)
        offer = self.of(need, app, where)
        badness = float(offer.tier) if self.habits.by_tier else offer.slowdown
        offer = offer._replace(waited_s=now - job.submit, declined_s=now - since, lessons=planner.lessons)
        stands = promised is not None and promised.answers(badness, now)
        if promised is None or not stands:
            declines = self._asked(job, need, app, offer, since, key)
        else:
            declines = Declines(promised.reason, promised.until)
        if declines is None or declines.until <= now or planner.facts.rivals(job, since):
            if planner.studied is not None:
                self._settled.append(Settled(job, offer, now, promised))
            return None
        if self.habits.keeps_word and not stands:
            planner.promised[job.key] = Promised(declines.until, badness, declines.reason)
        planner.declining[job.key] = since
        self.soonest = min(self.soonest, declines.until)
        return declines

    def _asked(self, job: Job, need: Need, app: App, offer: Offer, since: float, key: Key) -> Declines | None:
        planner, patience = self._planner, self._patience
        if self.habits.forecasts and offer.slowdown > 1.0:
            self._easy.note()
            ahead = self._wanted_ahead(key)
            better = better_than(offer.slowdown, need, app, planner, ahead)
            offer = offer._replace(run_s=planner.facts.run_times.of(job, app.name).seconds, better=better)
        wait = patience.waits(job, offer)
        return None if wait is None else Declines(wait.reason, since + wait.most_s)

    def _wanted_ahead(self, key: Key) -> int:
        """GPUs for which those wait who stand ahead of it and were promised something better."""
        planner, wanted = self._planner, 0
        for ref, promised in planner.promised.items():
            entry = planner.queue.waiting.get(ref.id)
            if entry is not None and entry.place.key < key and promised.until > planner.now:
                wanted += entry.place.job.shape.least_gpus if entry.place.job.shape else 0
        return wanted

    def learn(self) -> None:
        """At the end of a plan: nobody is judged by what others of the same plan have shown."""
        studied = self._planner.studied
        if self._settled and studied is not None:
            self._planner.lessons = studied.learns(self._planner.lessons, self._settled)
