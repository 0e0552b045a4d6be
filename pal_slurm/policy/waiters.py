"""Those who wait, by kind. In: jobs that come, change and go. Out: a sorted line per kind, and jobs for themselves.

A tag may claim a more sensitive class than its user's jobs have shown (`App.shown`). Such a claim counts for nobody but
the job itself: among the classes that wait it is the class shown, and while a job of a more sensitive class than that
waits whose user has shown it, the claimant is placed as one of the class shown too. So whoever is measured is placed as
if the claim had not been made.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import count

from pal_slurm.model import App, Reason
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.line import Group, InLine, Waiting
from pal_slurm.policy.needs import Need
from pal_slurm.policy.plan import Circumstances
from pal_slurm.policy.turn import Turn, turn_of


class Waiters:
    def __init__(self, floor: Floor, facts: Circumstances) -> None:
        self._floor, self._facts = floor, facts
        self.waiting: dict[int, Waiting] = {}
        self.left: dict[int, App] = {}  # of those who have gone: most of them run now
        self.groups: dict[tuple[Need, int], Group] = {}
        self.odd: dict[int, Waiting] = {}  # who is looked at one by one
        self.newcomers: list[Waiting] = []  # since somebody cleared it
        self._count: Counter[str] = Counter()  # GPU jobs that may be placed, by proven class
        self._classes: frozenset[str] | None = frozenset()  # the same without numbers; None: to be counted
        self._claims: dict[int, App] = {}  # by job: as its tag says, where that is in doubt
        self._placed_as: dict[int, tuple[App, App]] = {}  # by the id of such an App: it, and one of the class shown
        self._next_turn = math.inf  # when one of them may become another kind of customer
        self._apps: dict[int, App] = {}  # so that their ids stay their own
        self._numbers = count()

    def enter(self, place: InLine, app: App, now: float) -> None:
        if app.shown:
            self._claims[place.job.id] = app
            app = self._for_now(app)
        self._stand(place, app, now)

    def leave(self, job: int) -> Waiting:
        """Its `app` is what its tag says."""
        entry = self._step_out(job)
        claim = self._claims.pop(job, entry.app)
        self.left[job] = claim
        return entry._replace(app=claim)

    def classes(self, now: float) -> frozenset[str]:
        """Proven ones, of the GPU jobs that may be placed. Whose claim is in doubt now stands as these bid him."""
        if self._classes is None:
            self._classes = frozenset(+self._count)
            for job, claim in self._claims.items():
                entry = self.waiting[job]
                if (app := self._for_now(claim)) is not entry.app:
                    self._step_out(job)
                    self._stand(entry.place, app, now)
            self._classes = frozenset(+self._count)
        return self._classes

    def _for_now(self, claim: App) -> App:
        index = self._floor.knowledge.scores.index
        if all(index(cls) >= index(claim.shown) for cls in self._classes or ()):
            return claim
        if id(claim) not in self._placed_as:
            self._placed_as[id(claim)] = claim, replace(claim, cls=claim.shown, shown="")
        return self._placed_as[id(claim)][1]

    def turn_over(self, now: float, *, anew: bool) -> bool:
        """What changes as time goes by: leases end, begin times come. `anew`: what jobs may be given is another."""
        if not anew and now < self._next_turn:
            return False
        self._next_turn = math.inf
        again = list(self.waiting.values())
        self.waiting, self.odd, self.groups = {}, {}, {}
        self._count, self._classes = Counter(), None
        for entry in again:
            self._stand(entry.place, entry.app, now)
        return True

    def _stand(self, place: InLine, app: App, now: float) -> None:
        job, facts = place.job, self._facts
        turn, reason = (Turn.PLACE, Reason.BEST_SPAN) if facts.alone else turn_of(job, now)
        if turn is Turn.PLACE and job.id in facts.outside:
            turn, reason = Turn.PLAIN, Reason.OUTSIDE_CANARY
        if turn is Turn.PLACE and job.id in facts.refused:
            turn, reason = Turn.PLAIN, Reason.REFUSED
        group = None
        if turn is Turn.PLACE and job.gpu_job:
            need = self._floor.needs.of(job)
            if need is None or not need.ways:
                turn, reason = Turn.PLAIN, Reason.CANT_PIN
            elif job.array_id is None and not job.yields and job.id not in facts.released:
                group = self._group(need, app, job.partitions)
                group.add(place)
        entry = self.waiting[job.id] = Waiting(place, app, group, turn, reason)
        self._counts(entry, 1)
        self.newcomers.append(entry)
        if group is None:
            self.odd[job.id] = entry
            self._floor.expects(None)
        for time in (job.eligible, job.lease.not_before if job.lease else None):
            if time is not None and now < time < self._next_turn:
                self._next_turn = time

    def _step_out(self, job: int) -> Waiting:
        entry = self.waiting.pop(job)
        self._counts(entry, -1)
        group = entry.group
        if group is None:
            del self.odd[job]
            return entry
        group.remove(entry.place.key)
        if not group.line:
            del self.groups[group.need, id(group.app)]
        return entry

    def _group(self, need: Need, app: App, partitions: tuple[str, ...]) -> Group:
        group = self.groups.get((need, id(app)))
        if group is None:
            group = self.groups[need, id(app)] = Group(next(self._numbers), need, app, partitions)
            self._apps[id(app)] = app
            self._floor.expects(need)
        return group

    def _counts(self, entry: Waiting, more: int) -> None:
        if entry.turn is not Turn.PLACE or not entry.place.job.gpu_job:
            return
        cls = entry.app.proven
        before = self._count[cls]
        self._count[cls] = before + more
        if not before or before + more == 0:
            self._classes = None
