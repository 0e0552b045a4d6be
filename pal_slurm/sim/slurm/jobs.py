"""One job of the simulated Slurm. In: its record, in Slurm's own words, how long it really runs. Out: the model's Job.

The record is what users, pald and slurmctld change; all that is derived from it is made anew after each change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from pal_slurm.model import Job
from pal_slurm.sim.slurm.asks import Want, ask_of
from pal_slurm.sim.slurm.machine import Part
from pal_slurm.sim.slurm.manners import PLAIN_MANNERS, Manners
from pal_slurm.slurm.nodes import PLAIN_WORDS, SiteWords
from pal_slurm.slurm.nodeset import expand
from pal_slurm.slurm.records import JobRecord, to_job

REQUEUED_S = 121  # Slurm's own begin time for a job that was requeued
Lasts = Callable[["SimJob"], float]  # seconds, once it has its parts


@dataclass(slots=True, eq=False)
class SimJob:
    record: JobRecord
    lasts: Lasts
    begin: float = 0.0  # not sooner
    held: bool = False
    waits_for: frozenset[int] = frozenset()  # jobs that have to end first
    recounts: bool = False  # --ntasks-per-gpu: 24.11 counts its tasks anew, and wrongly, at any edit
    said_requeue: bool | None = None  # --requeue or --no-requeue: its record can't tell that from the site's default
    site: SiteWords = PLAIN_WORDS
    typed: bool = False  # asked for by type, once: 22.05 never forgets that
    parts: tuple[Part, ...] = ()
    started: float = 0.0
    ended: float = 0.0
    starts: int = 0  # an end belongs to one of them
    manners: Manners = PLAIN_MANNERS  # how it takes signals
    bound: str = ""  # what it would lose by a requeue
    back: bool = False  # its run is being ended, and it will wait again
    told_to_end: float = -1.0  # its last run: when
    freed: float = -1.0  # and when its nodes were done with it
    last: tuple[Part, ...] = ()  # what that run held
    empty: bool = False  # slurmctld says that it runs, and nothing does
    ran: JobRecord | None = field(default=None, repr=False)  # as it ran, for a slurmctld that forgets its end
    _job: Job | None = field(default=None, repr=False)
    _ask: Want | None = field(default=None, repr=False)
    _before: JobRecord | None = field(default=None, repr=False)  # as it waited

    @property
    def pending(self) -> bool:
        return self.record.state == "PENDING"

    @property
    def running(self) -> bool:
        return bool(self.parts)

    @property
    def ask(self) -> Want:
        if self._ask is None:
            self._ask = ask_of(self.record)
        return self._ask

    @property
    def limit_s(self) -> float:
        minutes = self.record.time_limit_min
        return 365 * 86_400.0 if minutes is None else 60.0 * minutes

    @property
    def must(self) -> frozenset[str]:
        return expand(self.record.required_nodes) if self.record.required_nodes else frozenset()

    def turn(self) -> tuple[int, int, int]:
        return (-(self.record.priority or 0), self.record.submit, self.record.id)

    def job(self) -> Job:
        if self._job is None:
            self._job = to_job(self.record, self.site)
        return self._job

    def changed(self) -> None:
        self._job = self._ask = None

    def says(self, reason: str) -> bool:
        """Why it waits; whether that is news."""
        if self.record.reason == reason:
            return False
        self.record.reason, self._job = reason, None
        return True

    def begins(self, now: float, parts: tuple[Part, ...], nodes: str, details: list[str], partition: str) -> None:
        self._before = msgspec.structs.replace(self.record)
        self.parts, self.started, self.starts = parts, now, self.starts + 1
        r = self.record
        r.state, r.reason, r.partition, r.planned_nodes = "RUNNING", "None", partition, ""
        r.start, r.end = int(now), int(now + self.limit_s)
        r.nodes, r.gres_detail, r.num_nodes = nodes, details, len(parts)
        r.cpus = sum(part.cpus for part in parts)
        self.changed()

    def goes_back(self, now: float) -> None:
        """Requeued: what it asked for is as it was, a pin included; it still shows where it runs."""
        self.ran, self.told_to_end, self.last, self.back = self.record, now, self.parts, True
        r = self.record = msgspec.structs.replace(self._before or self.record)
        r.state, r.restarts = "COMPLETING", self.ran.restarts + 1
        r.nodes, r.gres_detail, r.start, r.end = self.ran.nodes, self.ran.gres_detail, self.ran.start, int(now)
        r.nice = self.ran.nice
        self.changed()

    def forgets(self) -> None:
        """Its requeue never was, for a slurmctld that was killed; its processes are gone all the same."""
        if self.ran is not None:
            self.record, self.parts, self.back, self.empty = self.ran, self.last, False, True
            self.changed()

    def waits_again(self, now: float) -> None:
        """Its nodes are done with it. Slurm gives it a new submit time, and a begin time where nobody gave it one."""
        r = self.record
        self.back, self.freed, self.empty = False, now, False
        r.state, r.submit, r.nodes, r.gres_detail = "PENDING", int(now), "", []
        r.reason = r.reason if self.held else "BeginTime"
        if self.begin <= now:
            self.begin = now + REQUEUED_S
        r.eligible, r.start, r.end = int(self.begin), int(self.begin), None
        self.changed()

    def refused_there(self, now: float, parts: tuple[Part, ...]) -> bool:
        """Its old nodes still know that it was to end in this second."""
        again = {part.row for part in parts} & {part.row for part in self.last}
        return bool(again) and int(now) in (int(self.told_to_end), int(self.freed))

    def twin(self, number: int) -> SimJob:
        """The same job by another id."""
        record = msgspec.structs.replace(self.record, id=number, gres_detail=[])
        same = (self.held, self.waits_for, self.recounts, self.said_requeue, self.site, self.typed)
        return SimJob(record, self.lasts, self.begin, *same, manners=self.manners)


def with_gpus(record: JobRecord, gpus: int, per_node: int) -> JobRecord:
    """It asks for so many GPUs: `per_node` on each of its nodes, or (0) in all, on as many nodes as may be."""
    if per_node:
        record.per_node = f"gres/gpu:{per_node}"
        record.num_nodes = record.max_nodes = gpus // per_node
    else:
        record.per_job = f"gres/gpu:{gpus}"
        record.num_nodes, record.max_nodes = 1, gpus
    return record
