"""Jobs that are looked at one by one in a plan. In: a walk, such a job in its turn. Out: what is decided about it.

Jobs that are not ours, that Slurm has to place, that can't start yet; arrays; heads of the queue that have waited for
us for too long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pal_slurm.model import Action, App, Decision, Job, JobRef, Placement, PoolCost, Reason, Waits
from pal_slurm.model.hostlist import expand_hosts
from pal_slurm.policy.easy import limit
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.memory import Head, head_from
from pal_slurm.policy.needs import Need
from pal_slurm.policy.turn import Turn

if TYPE_CHECKING:
    from pal_slurm.policy.line import Waiting
    from pal_slurm.policy.walk import Walk

SOON_S = 120.0  # a start that Slurm's backfill plans within this time is left to it


class OddJobs:
    def __init__(self, walk: Walk) -> None:
        self._walk, self._planner, self._now = walk, walk.planner, walk.now
        waiting = self._planner.queue.waiting
        self.overdue: dict[int, Reason] = {}
        for key, head in self._planner.heads.items() if not walk.facts.alone else ():
            entry = waiting.get(key.id)
            if entry is not None and entry.place.job.key == key and (why := self._late(entry.place.job, head)):
                self.overdue[key.id] = why

    @cached_property
    def _arrays(self) -> list[Job]:
        return [e.place.job for e in self._planner.queue.odd.values() if e.place.job.array_id is not None]

    @cached_property
    def _limits(self) -> dict[int | None, int]:
        return {job.array_id: job.array_limit for job in self._arrays if job.array_limit is not None}

    @cached_property
    def _tasks(self) -> Counter[int | None]:
        """Per array, the tasks that run or were let go already: what its %N counts."""
        tasks: Counter[int | None] = Counter(job.array_id for job in self._arrays if job.task_let_go(self._now))
        tasks.update(self._planner.tasks)
        return tasks

    def _late(self, job: Job, head: Head) -> Reason | None:
        """Why a head is not to wait for us any longer: Slurm's own queue and backfill shall reserve for it."""
        if self._served(job, head):
            return None
        if self._now > head.until:
            return Reason.PAST_PLANNED_START
        return Reason.OVERTAKEN if self._walk.facts.rivals(job, head.since) else None

    def _served(self, job: Job, head: Head) -> bool:
        """A task of this array has started since: the next one is a new head."""
        return job.array_id is not None and self._last_start.get(job.array_id, -math.inf) > head.since

    @cached_property
    def _last_start(self) -> dict[int | None, float]:
        """By array, of its running tasks."""
        last: dict[int | None, float] = {}
        for job, _ in self._planner.running.values():
            if job.array_id is not None and job.start is not None:
                last[job.array_id] = max(float(job.start), last.get(job.array_id, -math.inf))
        return last

    def expect(self) -> None:
        """Pinned jobs: Slurm may be starting them at this moment."""
        walk = self._walk
        for number, where in walk.facts.released.items():
            entry = self._planner.queue.waiting.get(number)
            if entry is not None:
                walk.floor.hold(entry.place.job, where)
                self._planner.horizon.occupy(number, entry.place.job, where, self._now + limit(entry.place.job))

    def entries(self) -> Iterator[Waiting]:
        released = self._walk.facts.released
        for number, entry in self._planner.queue.odd.items():
            if number not in released:
                yield entry
        for number in self.overdue:
            if number not in released and number not in self._planner.queue.odd:
                yield self._planner.queue.waiting[number]

    def decide(self, entry: Waiting) -> None:
        walk, job, turn, reason = self._walk, entry.place.job, entry.turn, entry.reason
        if turn is Turn.THEIRS:
            if job.id in walk.facts.lapsed and not self._starts_soon(job):
                reason = Reason.LEASE_RAN_OUT
            self._make_room(job, entry.app)
        elif turn is Turn.ASIDE and self._at_limit(job):
            self._make_room(job, entry.app)
        if turn in (Turn.PLACE, Turn.PLAIN) and (job.reservation or job.slurms or not job.gpu_job):
            self._leave_to_slurm(job)
        elif not job.gpu_job:
            return
        elif reason is Reason.LEASE_RAN_OUT or turn is Turn.LATER:
            walk.tell(Decision(job.id, None, Action.WAIT, reason))
        elif turn in (Turn.THEIRS, Turn.ASIDE):
            walk.tell(Decision(job.id, None, Action.LEAVE, reason))
        elif job.id in self.overdue:
            self._make_room(job, entry.app)  # what is kept for it stays so until Slurm keeps it
            first = job.array_tasks[0] if job.array_tasks else job.array_task
            walk.tell(Decision(job.id, first, Action.PLAIN, self.overdue[job.id]))
        else:
            self._start(entry)

    def _at_limit(self, job: Job) -> bool:
        """An array of Slurm's that waits for its own tasks only: when one has ended the next starts."""
        begun = job.eligible is not None and job.eligible <= self._now
        limited = job.array_limit is not None and job.why is Waits.BLOCKED and not job.dependency
        return bool(job.array_tasks) and limited and begun

    def _leave_to_slurm(self, job: Job) -> None:
        """When it could start is not told by what is free for others.

        It was edited under its lease, into a reservation or so that it asks for no GPU that we know of; or it is one of
        those that only Slurm knows the place of.
        """
        for task in job.array_tasks or (job.array_task,):
            self._walk.tell(Decision(job.id, task, Action.PLAIN, Reason.CANT_PIN))

    def _start(self, entry: Waiting) -> None:
        """One decision, or one per array task that starts and one for those that wait."""
        job = entry.place.job
        tasks: tuple[int | None, ...] = job.array_tasks or (job.array_task,)
        room = len(tasks)
        if job.array_id is not None and (most := self._limits.get(job.array_id)) is not None:
            room = max(0, most - self._tasks[job.array_id])
        due = self._walk.facts.due
        of_part = len(tasks) if due is None else due.tasks(job, len(tasks), entry.place.key[0])
        for task in tasks[: min(room, of_part)]:
            if not self._starts(entry, task):
                return
            self._tasks[job.array_id] += 1
        if min(room, of_part) < len(tasks):
            waiting = None if job.array_tasks else job.array_task
            why = Reason.NOT_ELIGIBLE if room <= of_part else Reason.BEHIND_HEAD
            self._walk.tell(Decision(job.id, waiting, Action.WAIT, why))

    def _starts(self, entry: Waiting, task: int | None) -> bool:
        walk, job, app, turn, reason = self._walk, entry.place.job, entry.app, entry.turn, entry.reason
        state = walk.easy.floor_for(job)
        waiting = None if job.array_tasks else task
        if walk.closed:
            walk.tell(Decision(job.id, waiting, Action.WAIT, Reason.BEHIND_HEAD))
            return False
        weighed: tuple[PoolCost, ...] = ()
        where = walk.composition.placement.place(job, app, state) if turn is Turn.PLACE else None
        need = None if where is None else walk.floor.needs.of(job)
        if need is not None:
            need, gives_in, weighed = walk.pool_of(job, need, app, state)
            if need is None:
                why = Reason.BETTER_POOL_SOON
                walk.tell(Decision(job.id, waiting, Action.WAIT, why, until=gives_in, weighed=weighed))
                return False
            where = walk.where(need, app, state, job)
        if where is None:
            where = first_fit(job, state)
            if where is not None and turn is Turn.PLACE:
                turn, reason = Turn.PLAIN, Reason.CANT_PIN  # it fits only unevenly over its nodes
        if where is None and (brief := self._cut_short(job, app)) is not None:
            walk.start(*brief, Action.PLAIN, Reason.CANT_PIN, state, task)
            return True
        if where is None and walk.easy.wants(job.partitions) and not self._planner.ever.fits(job):
            walk.tell(Decision(job.id, task, Action.PLAIN, Reason.CANT_PIN))
            return True
        if where is None:
            fits = state is not walk.floor and first_fit(job, walk.floor) is not None
            plain = turn is Turn.PLAIN
            asks = None if plain else walk.floor.needs.of(job)
            until = walk.reserve(job, asks or walk.floor.needs.guess(job), plain=plain)
            why = Reason.BEHIND_HEAD if fits else Reason.NO_ROOM
            walk.tell(Decision(job.id, waiting, Action.WAIT, why, until=until))
            return False
        return self._takes(job, need, app, task, where, turn, reason, weighed)

    def _cut_short(self, job: Job, app: App) -> tuple[Job, App, Placement] | None:
        """Where Slurm's backfill would start it now, for as much of its limit as there is time for."""
        if not job.yields:
            return None
        brief = replace(job, time_limit_s=job.least_limit_s)
        where = first_fit(brief, self._walk.easy.floor_for(brief))
        return None if where is None else (brief, app, where)

    def _takes(
        self, job: Job, need: Need | None, app: App, task: int | None, where: Placement, turn: Turn, reason: Reason,
        weighed: tuple[PoolCost, ...],
    ) -> bool:  # fmt: skip
        """`need`: in the pool that it takes."""
        walk, state = self._walk, self._walk.easy.floor_for(job)
        if turn is Turn.PLACE:
            assert need is not None  # else it could not have been placed
            where, wait = walk.answer(job, need, app, where, state, self._planner.queue.waiting[job.id].place.key)
            if wait is not None:
                step = walk.offers.step(app, where)
                waiting = None if job.array_tasks else task
                walk.tell(Decision(job.id, waiting, Action.WAIT, wait.reason, step_time=step, until=wait.until))
                return False
        action = Action.START if turn is Turn.PLACE else Action.PLAIN
        walk.start(job, app, where, action, reason, state, task, weighed)
        return True

    def _starts_soon(self, job: Job) -> bool:
        """Whether Slurm could start it now without delaying a job ahead, or plans to within `SOON_S`."""
        if job.planned_nodes and job.start is not None and job.start <= self._now + SOON_S:
            return True
        return not self._walk.closed and first_fit(job, self._walk.easy.floor_for(job)) is not None

    def _make_room(self, job: Job, app: App) -> None:
        """A job that is not ours: hold what Slurm planned for it, or what it would take now."""
        walk = self._walk
        planned = expand_hosts(job.planned_nodes) or frozenset()
        if not job.gpu_job:
            if planned and job.start is not None:
                # How many CPUs it asks for is not in the record: its nodes are kept whole from then on.
                walk.easy.respect(replace(job, exclusive=True), planned, 0, job.start)
            return
        need = walk.floor.needs.guess(job)
        if planned and job.start is not None:
            most = need.ways[0][1] if need.ways else -(-need.shape.least_gpus // len(planned))
            walk.easy.respect(job, planned, most, job.start)
            return
        for number in range(self._at_once(job)):
            where = first_fit(job, walk.easy.floor_for(job))
            if where is None:
                walk.reserve(job, need, plain=True)
                return
            walk.take((job.id, number) if job.array_tasks else job.id, job, where)

    def _at_once(self, job: Job) -> int:
        """Of an array so many tasks may start now."""
        most = self._limits.get(job.array_id, len(job.array_tasks))
        return max(0, min(len(job.array_tasks), most - self._tasks[job.array_id])) if job.array_tasks else 1

    def heads(self) -> dict[JobRef, Head]:
        """Those of ours for whom room is kept, and until when they wait for us."""
        planner, now = self._planner, self._now
        heads: dict[JobRef, Head] = {}
        for reserved in self._walk.easy.reserved:
            job = planner.queue.waiting[reserved.job].place.job
            if job.lease is not None and (job.eligible is None or job.eligible > now):
                head = planner.heads.get(job.key)
                heads[job.key] = head_from(reserved.start, now) if head is None or self._served(job, head) else head
        return heads
