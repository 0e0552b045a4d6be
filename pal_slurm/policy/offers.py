"""What a job is offered, and whether it declines. In: a kind of job, a placement. Out: an offer, a wait.

Nobody waits for what can't come: an offer is compared with the best that there would be if every GPU were free.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pal_slurm.model import App, Job, Placement, Reason, comm_of, flat
from pal_slurm.policy.needs import Need
from pal_slurm.policy.patience.none import NoPatience
from pal_slurm.policy.seams import Offer

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner


class Declines(NamedTuple):
    reason: Reason
    until: float


class Offers:
    """In one plan."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.soonest = math.inf  # when the first of those who declined gives in
        c = planner.composition
        self._patient = not (isinstance(c.patience, NoPatience) or c.fill.strict)

    def of(self, need: Need, app: App, where: Placement) -> Offer:
        """The same for all jobs of a kind."""
        last = self._planner.offered.get((need, id(app)))
        if last is not None and last[0] is where:
            return last[1]
        planner = self._planner
        f = planner.speeds.factors(app, flat(where, planner.cluster))
        span_cost = f.comm / float(comm_of(app, need.narrowest))
        slowdown = f.worst_score * span_cost
        if slowdown > 1.0:
            slowdown = min(slowdown, f.step_time / planner.best(need, app))
        faster = planner.floor.faster(app.cls, f.worst_score)
        offer = Offer(f.tier, slowdown, 0.0, 0.0, faster, span_cost)
        planner.offered[need, id(app)] = (where, offer)
        return offer

    def declines(self, job: Job, need: Need, app: App, where: Placement) -> Declines | None:
        """Not where nobody could use meanwhile what it leaves, or somebody would who takes his turn from nobody."""
        if not self._patient:
            return None
        planner, now = self._planner, self._planner.now
        since = planner.declines_since(job)
        if since is None:
            since = now
        offer = self.of(need, app, where)
        offer = offer._replace(waited_s=now - job.submit, declined_s=now - since)
        wait = planner.composition.patience.waits(job, offer)
        if wait is None or since + wait.most_s <= now or planner.facts.rivals(job, since):
            return None
        planner.declining[job.key] = since
        until = since + wait.most_s
        self.soonest = min(self.soonest, until)
        return Declines(wait.reason, until)
