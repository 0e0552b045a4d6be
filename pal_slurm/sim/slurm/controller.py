"""slurmctld in memory. In: submissions, edits, what admins and nodes do, time. Out: jobs that start and end.

Nothing sleeps: `run_until` lets time pass, event by event. Jobs start in passes only (passes.py). A change makes the
main scheduler look at the next whole second, as slurmctld's own loop does; a begin time that has come changes nothing
by itself, and waits for the next pass.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count

from pal_slurm.sim.slurm import passes
from pal_slurm.sim.slurm.forgetful import forget
from pal_slurm.sim.slurm.jobs import Lasts, SimJob
from pal_slurm.sim.slurm.machine import Node, Part, detail_of
from pal_slurm.sim.slurm.manners import PLAIN_MANNERS, Manners
from pal_slurm.sim.slurm.setup import SlurmSetup
from pal_slurm.slurm.capabilities import parse_release
from pal_slurm.slurm.nodes import PLAIN_WORDS, PartitionRecord, ReservationRecord
from pal_slurm.slurm.nodeset import fold
from pal_slurm.slurm.records import JobRecord

SAVED_S = 5.0  # slurmctld writes its state down so often at least: one that is killed has forgotten what came since
KILLED_S = 5.0  # the least time between SIGTERM and SIGKILL
SAME_SECOND = (26, 5, 0)  # from here on a job may start where it was just ended
KEEPS_PRIORITY = (24, 11, 0)  # before, a requeued job kept its own
FIRST_PRIORITY = 4_294_901_760  # priority/basic: each job gets one less than the one before


class Controller:
    def __init__(
        self, nodes: Sequence[Node], partitions: Mapping[str, Iterable[str]], setup: SlurmSetup, now: float
    ) -> None:
        self.setup, self.now = setup, now
        self.nodes = list(nodes)
        self.row = {node.name: row for row, node in enumerate(self.nodes)}
        self.partitions = [PartitionRecord(name, fold(names)) for name, names in partitions.items()]
        self.reservations: list[ReservationRecord] = []
        self.pending: dict[int, SimJob] = {}
        self.running: dict[int, SimJob] = {}  # also completing
        self.ended: dict[int, str] = {}  # the last state of jobs that are gone
        self.done: deque[SimJob] = deque(maxlen=100_000)
        self.plugin: Callable[[SimJob, float], None] | None = None  # job_submit
        self.site = PLAIN_WORDS
        self.answers = True  # False: slurmctld is away; jobs end, none starts
        self.began = now
        self.main_passes = self.backfill_passes = 0
        self.version = 0  # of the queue: one more with all that anybody could see
        self.machine = 0  # of the nodes: what they are, and whether they may start jobs
        self.found_rows: dict[tuple[str, str, str, bool], tuple[int, ...]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number, self.next_job, self._priority = count(), 1, FIRST_PRIORITY
        self._stirred = False
        self._tick_main()
        self.at(now + setup.backfill_s, self._tick_backfill)

    # --- time

    def at(self, when: float, what: Callable[[], None]) -> None:
        heappush(self._events, (when, next(self._number), what))

    @property
    def next_event(self) -> float:
        return self._events[0][0] if self._events else math.inf

    def run_until(self, when: float) -> None:
        while self._events and self._events[0][0] <= when:
            at, _, what = heappop(self._events)
            self.now = max(self.now, at)
            what()
        self.now = max(self.now, when)

    def stir(self) -> None:
        """Something has changed that the main scheduler should look at."""
        self.version += 1
        if not self._stirred:
            self._stirred = True
            self.at(math.floor(self.now) + 1.0, self._main)

    def _main(self) -> None:
        self._stirred = False
        if self.answers:
            self.main_passes += 1
            if self.pending:
                passes.main(self)

    def _tick_main(self) -> None:
        self.at(self.now + self.setup.main_s, self._tick_main)
        self._main()

    def _tick_backfill(self) -> None:
        self.at(self.now + self.setup.backfill_s, self._tick_backfill)
        if self.answers:
            self.backfill_passes += 1
            if any(passes.due(self, job) for job in self.pending.values()):
                passes.backfill(self)

    # --- jobs

    def submit(
        self,
        record: JobRecord,
        lasts: Lasts,
        *,
        begin: float = 0.0,
        held: bool = False,
        waits_for: Iterable[int] = (),
        recounts: bool = False,
        said_requeue: bool | None = None,
        manners: Manners = PLAIN_MANNERS,
    ) -> int:
        """sbatch, with the plugin's word in it. Id, times, priority and reason are filled in here."""
        number, self.next_job = self.next_job, self.next_job + 1
        record.id, record.submit, record.state, record.reason = number, int(self.now), "PENDING", "None"
        record.batch = 1 if record.batch is None else record.batch
        if record.priority is None:
            record.priority, self._priority = self._priority, self._priority - 1
        waits = frozenset(waits_for) - self.ended.keys()
        job = SimJob(record, lasts, begin, held, waits, recounts, said_requeue, self.site, manners=manners)
        if self.plugin is not None:
            self.plugin(job, self.now)
        record.partition = record.partition or self.partitions[0].name
        if record.array_tasks:
            record.array_id = number
        self.pending[number] = job
        self.settle(job)
        if held:
            record.priority, record.reason = 0, "JobHeldUser"
        self.stir()
        return number

    def settle(self, job: SimJob) -> None:
        """When it is eligible, as told: never, of one that waits for others when its begin time has passed."""
        r = job.record
        r.eligible = None if job.waits_for and job.begin <= self.now else int(max(job.begin, r.submit))
        r.start = int(job.begin) if job.begin > self.now else None
        if not job.held and (job.waits_for or job.begin > self.now):
            r.reason = "Dependency" if job.waits_for else "BeginTime"
        if not job.waits_for:
            r.dependency = ""
        job.changed()

    def family(self, number: int) -> list[SimJob]:
        """The job of this id; all records of the array of this id."""
        queue = (*self.pending.values(), *self.running.values())
        return [job for job in queue if number in (job.record.id, job.record.array_id)]

    def find(self, number: int) -> SimJob | None:
        return self.pending.get(number) or self.running.get(number)

    def start(self, job: SimJob, parts: tuple[Part, ...], partition: str) -> None:
        for part in parts:
            self.nodes[part.row].hold(part)
        names = [self.nodes[part.row].name for part in parts]
        gpus = any(part.slots or part.shards for part in parts)
        details = [detail_of(part, self.nodes[part.row]) if gpus else "" for part in parts]
        job.begins(self.now, parts, fold(names), details, partition)
        del self.pending[job.record.id]
        self.running[job.record.id] = job
        self.version += 1
        if parse_release(self.setup.release) < SAME_SECOND and job.refused_there(self.now, parts):
            self.end(job, job.starts, "FAILED")  # job credential revoked
            return
        lasts, run = job.lasts(job), job.starts
        over = self.setup.limits_kill and lasts > job.limit_s
        state = "TIMEOUT" if over else "COMPLETED"
        self.at(self.now + (job.limit_s if over else lasts), lambda: self.end(job, run, state))

    def end(self, job: SimJob, run: int, state: str) -> None:
        if job.starts == run and job.running:
            self.free(job)
            self._gone(job, state)

    def cancel(self, number: int) -> None:
        """scancel: an array with all its tasks."""
        for job in self.family(number):
            if job.running:
                self.free(job)
            self._gone(job, "CANCELLED")

    def requeue(self, number: int) -> None:
        """Completing for as long as it takes to end, its GPUs held; then it waits, pin and all."""
        job = self.running[number]
        if job.back:
            return
        job.goes_back(self.now)
        if self.setup.ends_open:
            job.record.gres_detail = []
            for part in job.parts:
                self.nodes[part.row].ends(part)
        job.starts += 1
        run, ends = job.starts, self.setup.completes_s if job.manners.term_s is None else job.manners.term_s
        ends = 0.02 if job.empty else min(ends, max(KILLED_S, self.setup.kill_wait_s))
        self.at(self.now + ends, lambda: self._requeued(job, run))
        self.version += 1

    def _requeued(self, job: SimJob, run: int) -> None:
        if job.record.id in self.running and job.back and job.starts == run:
            self.free(job)
            del self.running[job.record.id]
            job.waits_again(self.now)
            if parse_release(self.setup.release) >= KEEPS_PRIORITY and job.record.priority:
                job.record.priority, self._priority = self._priority - (job.record.nice or 0), self._priority - 1
            self.pending[job.record.id] = job
            self.stir()

    def signal(self, number: int, name: str, *, to_script: bool) -> None:
        """scancel --signal: what the job then does is a matter of its manners."""
        job = self.running.get(number)
        if job is not None and job.running and not job.back and not job.empty:
            run = job.starts
            after, answer = job.manners.on_signal(name, to_script)
            if answer is not None:
                self.at(self.now + after, lambda: answer(self, job) if job.starts == run and job.running else None)

    def hold(self, number: int, reason: str = "JobHeldAdmin") -> None:
        """scontrol hold: by default an admin's."""
        if (job := self.find(number)) is not None:
            self.held(job, reason)

    def held(self, job: SimJob, reason: str) -> None:
        job.held, job.record.priority = True, 0
        job.says(reason)
        job.changed()
        self.version += 1

    def release(self, number: int) -> None:
        """scontrol release, of a job that is held."""
        if (job := self.find(number)) is not None and job.held:
            nice, job.held = job.record.nice or 0, False
            self.reckon_anew(job)
            job.record.nice = nice
            job.record.priority = (job.record.priority or 0) - nice
            job.says("None")
            job.changed()
            self.stir()

    def reckon_anew(self, job: SimJob) -> None:
        """scontrol release, of one that nobody holds: the last of all, and with no nice."""
        job.record.priority, job.record.nice, self._priority = self._priority, 0, self._priority - 1

    def lower(self, number: int, priority: int) -> None:
        """scontrol update Priority, by the job's user: no more than it has. Its nice is 0 then."""
        if (job := self.find(number)) is not None and 0 < priority < (job.record.priority or 0):
            job.record.priority, job.record.nice = priority, 0
            job.changed()
            self.stir()

    def free(self, job: SimJob) -> None:
        for part in job.parts:
            node = self.nodes[part.row]
            if part in node.ending:
                node.ends(part, over=True)
            node.hold(part, -1)
        job.parts = ()

    def _gone(self, job: SimJob, state: str) -> None:
        number = job.record.id
        job.record.state, job.record.end, job.ended = state, int(self.now), self.now
        (self.pending.pop(number, None) or self.running.pop(number)).changed()
        self.ended[number] = state
        self.done.append(job)
        for other in self.pending.values():
            if number in other.waits_for:
                other.waits_for -= {number}
                self.settle(other)
        self.stir()

    def split(self, array: SimJob, task: int) -> SimJob:
        """One task of an array's record becomes a job of its own; the last one keeps the record."""
        left = [index for index in array.job().array_tasks if index != task]
        own = array
        if left:
            number, self.next_job = self.next_job, self.next_job + 1
            own = array.twin(number)
            self.pending[number] = own
            array.record.array_tasks = ",".join(map(str, left))
            array.changed()
        own.record.array_task, own.record.array_tasks = task, ""
        own.changed()
        self.version += 1
        return own

    # --- nodes

    def set_node(self, name: str, state: str) -> None:
        """`DRAIN`, `DOWN`, or "" for well again. Jobs on a node that is down are requeued, or end."""
        self.nodes[self.row[name]].said(state)
        if state == "DOWN":
            for job in list(self.running.values()):
                if self.row[name] in {part.row for part in job.parts}:
                    if job.record.requeue:
                        self.requeue(job.record.id)
                    else:
                        self.end(job, job.starts, "NODE_FAIL")
        self._nodes_changed()

    def _nodes_changed(self) -> None:
        self.found_rows.clear()
        self.machine += 1
        self.stir()

    def reserve(self, record: ReservationRecord) -> None:
        self.reservations.append(record)
        self.at(record.end, lambda: self.unreserve(record.name))
        self._nodes_changed()

    def unreserve(self, name: str) -> None:
        self.reservations = [record for record in self.reservations if record.name != name]
        self._nodes_changed()

    def kill(self) -> None:
        """SIGKILL, and slurmctld anew: what it had not written down yet never was."""
        forget(self, SAVED_S)
        self.restart()

    def restart(self) -> None:
        """slurmctld anew: it counts its passes from nothing."""
        self.began, self.main_passes, self.backfill_passes, self.answers = self.now, 0, 0, True
        self.stir()
