"""One plan in the making. In: a planner's state, the moment. Out: Plan.

1. What pinned jobs are about to take counts as taken.
2. The waiting jobs are walked in the composition's order; of a kind that has no room nobody is looked at.
3. A job that fits is placed and takes its GPUs, unless patience bids it wait for better ones.
4. One that can't be pinned goes plain when enough is free; what Slurm will probably take counts as taken.
5. One that does not fit waits; the first such gets a reservation, and later jobs start only where that delays nobody.
6. Jobs that are not ours take their turn too: they hold what Slurm planned for them, or would take now (oddjobs.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING

from pal_slurm.model import Action, App, Decision, Job, Placement, PoolCost, Reason
from pal_slurm.policy.agenda import Agenda
from pal_slurm.policy.earmark import earmark
from pal_slurm.policy.easy import Easy, limit
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.line import Group, InLine, Key, TurnedDown, Waiting
from pal_slurm.policy.needs import Need
from pal_slurm.policy.neighbours import Neighbours
from pal_slurm.policy.oddjobs import OddJobs
from pal_slurm.policy.offers import Declines, Offers
from pal_slurm.policy.plan import STARTS, KeptForWaiting, Plan, nobody
from pal_slurm.policy.pools.choice import PoolChoice, PoolTaken
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.spared import Spared

if TYPE_CHECKING:
    from pal_slurm.policy.planner import Planner


class Walk:
    def __init__(self, planner: Planner) -> None:
        self.planner, self.now, self.facts = planner, planner.now, planner.facts
        self.composition, self.floor = planner.composition, planner.floor
        planner.horizon.begin(self.now)
        self.easy = Easy(
            self.floor,
            planner.horizon,
            self.now,
            self.composition.fill.reserve,
            self.composition.patience.habits.forecasts,
        )
        self.offers = Offers(planner, self.easy)
        self.pools = None if planner.pools is None else PoolChoice(planner, planner.pools, planner.options)
        self.changes = self.offers.habits.changes or self.pools is not None
        self.starts: list[Decision] = []
        self.told: dict[int, list[Decision]] = {}  # by job, who was looked at
        self.closed = False  # strict: behind the first job that waits, nobody starts
        self.odd, self.neighbours = OddJobs(self), Neighbours(self)
        placer = self.composition.placement
        self._ranking = placer if isinstance(placer, Ranking) else None  # what one is offered, all of its kind are
        self._fastest = (
            Ranking(heeds_earmark=True)
            if self._ranking is not None and self._ranking.scores and self._ranking.thrifty
            else None
        )
        self._free = self.floor.total()  # at most
        self._at: Key = ()  # whose turn it was last
        self._agenda = Agenda(self.odd.entries())
        self._offered: dict[Group, tuple[int, int]] = {}  # as of which state its best offer was last held against it
        self._short: set[Group] = set()  # only its short jobs may still start
        self._full: set[Group] = set()  # nobody of it may
        self._why: dict[Group, list[tuple[Key, Reason]]] = {}  # why those from there on wait

    def run(self) -> Plan:
        planner, alone = self.planner, self.facts.alone
        self.odd.expect()
        self.floor.earmarks(earmark(planner) if self._fastest is not None else None)
        self._spared = Spared(planner)
        if self._ranking is None or self.facts.rivals is not nobody or self.changes:
            for group in planner.queue.groups.values():
                group.ask_all()
        if self._free or not alone:
            most = math.inf if self.odd.overdue else self._free
            self._agenda.line_up(planner.queue.groups.values(), most, heads=self.composition.fill.reserve > 0)
        while (turn := self._agenda.next(self._candidate)) is not None:
            place, who = turn
            self._at = place.key
            if isinstance(who, Group):
                self._ask(who, place)
            else:
                self.odd.decide(who)
        self.neighbours.seat()
        self.floor.spares(None)
        return self._plan()

    def _look_again(self) -> None:
        if self.offers.patient or self.pools is not None:  # else nobody ever declines
            self._agenda.look_again(self.planner.queue.groups.values(), self._full, self._at)

    def _candidate(self, group: Group) -> InLine | None:
        """Who of this kind is the next to be asked."""
        if self.closed or group in self._full:
            return None
        wants = self.easy.wants(group.partitions)
        if group.gpus > self._free and not wants:
            self._bar(group, self._at, Reason.NO_ROOM)
            return None
        wants = wants and not self.easy.hopeless(group.need)
        if group.refused and not self._ask_again(group, wants):
            if not wants:
                self._bar(group, self._at, Reason.NO_ROOM)
                return None
            return self._but_odd(group, group.first)
        within_s = self.easy.soonest - self.now if group in self._short else math.inf
        if not self.odd.overdue:
            return group.next(self._at, within_s)
        return self._but_odd(group, lambda after: group.next(after, within_s))

    def _but_odd(self, group: Group, following: Callable[[Key], InLine | None]) -> InLine | None:
        """Heads that are to be let go are decided one by one."""
        place, overdue = following(self._at), self.odd.overdue
        while overdue and place is not None and place.job.id in overdue:
            place = following(place.key)
        return place

    def _ask_again(self, group: Group, wants: bool) -> bool:
        """Those of a kind who declined, where what is offered is better now. False: nothing is."""
        stands = (len(self.floor.changed), len(self.easy.reserved))
        if self._offered.get(group) == stands:  # what was offered since was declined too
            return True
        where = self.where(group.need, group.app, self.floor)
        if where is None and self._ranking is not None and self.facts.alone:
            return False  # beside Slurm some of them may still go unevenly
        if where is None or (wants and self.easy.held is not None):
            group.ask_all()
            return True
        slowdown = self._least_badness(group, where, self.floor)
        if self.easy.held is not None:
            beyond = self.where(group.need, group.app, self.easy.held)
            if beyond is not None:
                slowdown = min(slowdown, self._least_badness(group, beyond, self.easy.held))
        group.ask_again(self.now, slowdown)
        self._offered[group] = stands
        return True

    def _least_badness(self, group: Group, where: Placement, state: Floor) -> float:
        """Of what is offered first and of the fastest."""
        fastest = None if self._fastest is None else self._fastest.place_kind(group.need, group.app, state)
        offers = (where,) if fastest is None else (where, fastest)
        return min(self.offers.badness(group.need, group.app, offer) for offer in offers)

    def where(self, need: Need, app: App, state: Floor, job: Job | None = None) -> Placement | None:
        if need.gpus > self._free:
            return None
        if self._fastest is not None:
            self._spare(job, app, state)
        if self._ranking is not None:
            return self._ranking.place_kind(need, app, state)
        return None if job is None else self.composition.placement.place(job, app, state)

    def _spare(self, job: Job | None, app: App, state: Floor) -> None:
        """Nodes that are to stay whole for wide jobs that are usual are dearer to it."""
        run_s = 0.0 if job is None else self.facts.run_times.of(job, app.name).seconds
        price = self._spared.price(run_s) if run_s else None
        for floor in (state, state.whole):
            if floor is not None:
                floor.spares(price)

    def _ask(self, group: Group, place: InLine) -> None:
        """It starts, declines, or has no room."""
        job, app = place.job, group.app
        state = self.easy.floor_for(job)
        need, until, weighed = self.pool_of(job, group.need, app, state)
        if need is None:
            group.refuse(TurnedDown(place, 0.0, Reason.BETTER_POOL_SOON, until))
            if not self.facts.alone:
                self.tell(Decision(job.id, None, Action.WAIT, Reason.BETTER_POOL_SOON, until=until, weighed=weighed))
            return
        where = self.where(need, app, state, job)
        if where is None:
            uneven = None if self.facts.alone else first_fit(job, state)
            if uneven is not None:
                # It fits only unevenly over its nodes, which Slurm gives but can't be asked for.
                self.start(job, app, uneven, Action.PLAIN, Reason.CANT_PIN, state)
            elif not self._sent_away(job):
                self._no_room(group, place, state)
            return
        where, wait = self.answer(job, need, app, where, state, place.key)
        if wait is None:
            self.start(job, app, where, Action.START, Reason.BEST_SPAN, state, weighed=weighed, kind=group.need)
            return
        slowdown = self.offers.badness(need, app, where)
        group.refuse(TurnedDown(place, slowdown, wait.reason, wait.until))
        if not self.facts.alone:
            step = self.offers.step(app, where)
            self.tell(Decision(job.id, None, Action.WAIT, wait.reason, step_time=step, until=wait.until))

    def answer(
        self, job: Job, need: Need, app: App, where: Placement, state: Floor, key: Key
    ) -> tuple[Placement, Declines | None]:
        """What it is offered, and whether it declines that."""
        wait = self.offers.declines(job, need, app, where, key)
        if wait is not None and self._fastest is not None:
            # It may decline what keeps nodes whole for others: then it is offered the fastest that is free.
            fastest = self._fastest.place_kind(need, app, state)
            if fastest is not None and fastest != where:
                return fastest, self.offers.declines(job, need, app, fastest, key)
        return where, wait

    def pool_of(self, job: Job, need: Need, app: App, state: Floor) -> PoolTaken:
        """Where it rather runs, if there is room; its pool, where there are several."""
        if need.preferred is not None and self.where(need.preferred, app, state, job) is not None:
            need = need.preferred
        if self.pools is None:
            return PoolTaken(need, math.inf, ())
        return self.pools.takes(job, need, app, lambda there: self.where(there, app, state, job) is not None)

    def _sent_away(self, job: Job) -> bool:
        """By our reckoning it fits nowhere, ever: Slurm may know better."""
        if self.facts.alone or not self.easy.wants(job.partitions) or self.planner.ever.fits(job):
            return False
        self.tell(Decision(job.id, None, Action.PLAIN, Reason.CANT_PIN))
        return True

    def _no_room(self, group: Group, place: InLine, state: Floor) -> None:
        job = place.job
        fits = state is not self.floor and (self.facts.alone or first_fit(job, self.floor) is not None)
        why = Reason.BEHIND_HEAD if fits else Reason.NO_ROOM
        next_too = False  # whether the next of its kind gets a reservation too
        if self.easy.wants(group.partitions):
            until = self.reserve(job, group.need, plain=False)
            next_too = self.easy.wants(group.partitions) and not self.easy.hopeless(group.need)
            if until is not None or next_too:
                self.tell(Decision(job.id, None, Action.WAIT, why, until=until))
        if self.easy.wants(group.partitions):
            self._agenda.bring_in()
        if next_too:
            return
        if state is self.floor:
            self._bar(group, place.key, why)
        else:
            self._short.add(group)
            self._why.setdefault(group, []).append((place.key, why))

    def _bar(self, group: Group, key: Key, why: Reason) -> None:
        self._full.add(group)
        self._why.setdefault(group, []).append((key, why))

    def stands(self, now: float) -> bool:
        """Whether it would end alike now, if nothing but the time is another."""
        reserved = self.easy.reserved
        if self.easy.by_estimate and reserved:
            return False  # what is expected changes with time alone
        return not self.easy.cleared and all(r.start >= now + 1.0 for r in reserved)

    def leaves_waiting(self, entry: Waiting) -> bool:
        """Whether it would have started this newcomer neither, nor kept room for it."""
        place, group = entry.place, entry.group
        if group is None or self._ranking is None or self.easy.wants(group.partitions):
            return False
        if any(self.planner.queue.waiting[r.job].place.key > place.key for r in self.easy.reserved):
            return False
        return self.closed or self.where(group.need, group.app, self.easy.floor_for(place.job)) is None

    # what the walk of odd jobs does too

    def reserve(self, job: Job, need: Need, *, plain: bool) -> float | None:
        """Keep room for it, if it is its turn; until when it probably waits then."""
        if not self.easy.wants(job.partitions):
            return None
        cleared = len(self.easy.cleared)
        kept = self.easy.reserve(job, need, plain=plain)
        for who, clear in self.easy.cleared[cleared:]:
            self.planner.clear(who, clear)
        self.closed |= self.composition.fill.strict and kept is not None
        self._look_again()
        return None if kept is None or math.isinf(kept.start) else kept.start

    def start(
        self, job: Job, app: App, where: Placement, action: Action, why: Reason, state: Floor, task: int | None = None,
        weighed: tuple[PoolCost, ...] = (), kind: Need | None = None,
    ) -> None:  # fmt: skip
        placement = self.neighbours.first(action, job, app, where)
        if self.facts.alone:
            decision = Decision(job.id, task, action, why, placement)
        else:
            if action is Action.START and not state.merit(app.cls).informed:
                why = Reason.NEUTRAL
            ours = self.offers.step(app, where) if action is Action.START else None
            slurms = first_fit(job, state, kind)  # what Slurm itself would give it, and how fast each is
            theirs = None if slurms is None else self.offers.step(app, slurms)
            steps = (theirs if ours is None else ours, theirs)
            decision = Decision(job.id, task, action, why, placement, *steps, 0, slurms, weighed=weighed)
        self.take(job.id if task is None else (job.id, task), job, where)
        if self.floor.earmark is not None and kind == self.floor.earmark.need:
            for floor in (self.floor, self.easy.held):
                if floor is not None:
                    floor.earmarks(None)
        self.tell(decision)
        if self.facts.alone:
            self.planner.starts(job, where)

    def take(self, who: Hashable, job: Job, where: Placement) -> None:
        self.floor.take(job, where)
        self._free -= where.n_gpus
        self.easy.started(job, where)
        self._look_again()
        app = self.planner.queue.waiting[job.id].app if job.id in self.planner.queue.waiting else None
        since = math.floor(self.now)  # as Slurm will tell it
        soon = self.planner.soon(job, app, where, since)
        self.planner.horizon.occupy(who, job, where, self.now + limit(job), soon, since)

    def tell(self, decision: Decision) -> None:
        self.told.setdefault(decision.job, []).append(decision)
        if decision.action in STARTS:
            self.starts.append(decision)

    def _plan(self) -> Plan:
        planner = self.planner
        asked = [group.wake_at(self.now) for group in planner.queue.groups.values() if group.refused]
        wake_at = min([self.offers.soonest, math.inf if self.pools is None else self.pools.soonest, *asked])
        if not self.facts.alone:
            planner.heads = self.odd.heads()
        self.offers.learn()
        planner.finish()
        return Plan(
            tuple(self.starts),
            tuple(self.easy.reserved),
            wake_at,
            self._all,
            planner.remembered,
            KeptForWaiting(self.easy.kept, self.easy.promised, self.easy.expected, self.floor.earmark),
        )

    def _all(self) -> Iterator[Decision]:
        rank = -1
        for entry in sorted(self.planner.queue.waiting.values(), key=lambda entry: entry.place.key):
            place, group = entry.place, entry.group
            job = place.job.id
            if job in self.facts.released:
                continue
            rank += 1
            told = self.told.get(job)
            if told is not None:
                yield from (decision.ranked(rank) for decision in told)
            elif group is not None:
                why, until = self.why_waits(group, place)
                yield Decision(job, None, Action.WAIT, why, rank=rank, until=until)

    def why_waits(self, group: Group, place: InLine) -> tuple[Reason, float | None]:
        for key, reason in reversed(self._why.get(group, ())):
            if key <= place.key:
                return reason, None
        refusal = group.refused.get(place.key)
        if refusal is not None:
            return refusal.reason, refusal.until
        return Reason.BEHIND_HEAD if self.closed else Reason.NO_ROOM, None
