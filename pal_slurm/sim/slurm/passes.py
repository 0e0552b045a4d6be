"""Slurm's two schedulers. In: the controller's queue. Out: jobs started, and why the others wait.

`main` takes jobs in their order of priority; one that can't start keeps all behind it in its partition waiting, unless
it asks for nodes by name: then only those are kept for it. `backfill` goes on behind it: each job that can't start now
is planned for the first moment at which time limits let it, on whole nodes (as Slurm's own table of free nodes knows
no smaller thing), and those behind start where no plan is hurt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pal_slurm.sim.slurm.allowed import rows_for
from pal_slurm.sim.slurm.asks import choose
from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.sim.slurm.machine import Free, Part, bits, left
from pal_slurm.slurm.nodeset import fold

if TYPE_CHECKING:
    from pal_slurm.sim.slurm.controller import Controller

_NOTHING = Free(0, 0, 0)


def due(c: Controller, job: SimJob) -> bool:
    """Nothing but GPUs keeps it waiting."""
    return not (job.held or job.waits_for or job.begin > c.now)


def queue(c: Controller) -> list[SimJob]:
    """Those that may start, in order; the others are told why not."""
    found = []
    for job in c.pending.values():
        if due(c, job):
            found.append(job)
            continue
        if job.waits_for and job.record.eligible is not None and job.begin <= c.now:
            c.settle(job)
        held = job.record.reason if job.record.reason.startswith("JobHeld") else "JobHeldUser"
        if job.says(held if job.held else "Dependency" if job.waits_for else "BeginTime"):
            c.version += 1
    found.sort(key=SimJob.turn)
    return found


def main(c: Controller) -> None:
    full: set[str] = set()
    kept: set[int] = set()
    for job in queue(c):
        for task in _tasks(c, job):
            partitions = job.record.partition.split(",")
            where = next(((p, parts) for p in partitions if p not in full and (parts := now(c, job, p, kept))), None)
            if where is not None:
                c.start(task(), where[1], where[0])
                continue
            if all(partition in full for partition in partitions):
                why = "Priority"
            else:
                why = reason(c, job)
                named = {c.row[name] for name in job.must if name in c.row}
                if len(named) >= job.ask.least:
                    kept |= named
                elif why == "Resources":
                    full.update(partitions)
            if job.says(why):
                c.version += 1
            break


def _tasks(c: Controller, job: SimJob) -> Iterator[Callable[[], SimJob]]:
    """The job; or the tasks of an array one after the other, as far as its own limit lets them."""
    limit, array = job.record.array_limit or 0, job.record.array_id
    one = array is None or job.record.array_task is not None
    while one or (job.record.id in c.pending and job.record.array_tasks):
        if limit and sum(j.record.array_id == array for j in c.running.values()) >= limit:
            if job.says("JobArrayTaskLimit"):
                c.version += 1
            return
        yield lambda: job if one else c.split(job, job.job().array_tasks[0])
        if one:
            return


def now(c: Controller, job: SimJob, partition: str, kept: set[int]) -> tuple[Part, ...] | None:
    """The parts that it would get at this moment."""
    must = [c.row.get(name, -1) for name in job.must]
    rows = [row for row in rows_for(c, job, partition) if row not in kept or row in must]
    nodes = c.nodes
    return choose(
        job.ask,
        rows,
        must,
        lambda row: _NOTHING if nodes[row].ending else nodes[row].free,
        lambda row: nodes[row].whole,
    )


def reason(c: Controller, job: SimJob) -> str:
    """Why it can't start, in Slurm's words."""

    def on_idle(up: bool) -> bool:
        nodes = c.nodes
        must = [c.row.get(name, -1) for name in job.must]
        offered = (rows_for(c, job, partition, up=up) for partition in job.record.partition.split(","))
        idle = lambda row: nodes[row].whole  # noqa: E731
        return any(choose(job.ask, rows, must, idle, idle) is not None for rows in offered)

    if on_idle(up=True):
        return "Resources"
    if on_idle(up=False):
        return "ReqNodeNotAvail" if job.must else "Resources"
    return "ReqNodeNotAvail" if job.must and c.reservations else "BadConstraints"


class Taken(NamedTuple):
    start: float
    end: float
    part: Part


class PassPlan:
    """Who holds what until when, row by row."""

    def __init__(self, c: Controller) -> None:
        self._c = c
        self._rows: list[list[Taken]] = [[] for _ in c.nodes]
        self._times = {c.now}
        for job in c.running.values():
            self.take(c.now, max(job.started + job.limit_s, c.now + 1), job.parts)

    def take(self, start: float, end: float, parts: tuple[Part, ...]) -> None:
        self._times.add(end)
        for part in parts:
            self._rows[part.row].append(Taken(start, end, part))

    def first(self, job: SimJob, partition: str) -> tuple[float, tuple[Part, ...]] | None:
        """The first moment at which it fits for as long as its limit."""
        c, limit = self._c, job.limit_s
        must = [c.row.get(name, -1) for name in job.must]
        rows, nodes = rows_for(c, job, partition), c.nodes
        for at in sorted(self._times):
            seen: dict[int, Free] = {}

            def free(row: int, at: float = at, seen: dict[int, Free] = seen) -> Free:
                if row not in seen:
                    seen[row] = self._free(row, at, at + limit)
                return seen[row]

            parts = choose(job.ask, rows, must, free, lambda row: nodes[row].whole)
            if parts is not None:
                return at, parts
        return None

    def _free(self, row: int, start: float, end: float) -> Free:
        node = self._c.nodes[row]
        busy, shared, (_, cpus, mem, _) = 0, Counter[int](), node.whole
        for taken in self._rows[row]:
            if taken.start < end and taken.end > start:
                busy, cpus, mem = busy | taken.part.slots, cpus - taken.part.cpus, mem - taken.part.mem_mb
                shared.update(bits(taken.part.shards))
        slots, open_ = left(node, busy, shared)
        return Free(slots, cpus, mem, open_)


def backfill(c: Controller) -> None:
    plan, tried = PassPlan(c), 0
    for job in queue(c):
        for task in _tasks(c, job):
            tried += 1
            if tried > c.setup.backfill_depth:
                return
            offers = ((p, plan.first(job, p)) for p in job.record.partition.split(","))
            found = [(offer[0], offer[1], p) for p, offer in offers if offer is not None]
            if not found:
                _told(c, job, reason(c, job))
                break
            at, parts, partition = min(found, key=lambda offer: offer[0])
            if at <= c.now:
                c.start(task(), parts, partition)
                plan.take(c.now, c.now + job.limit_s, parts)
                continue
            whole = tuple(Part(part.row, *c.nodes[part.row].whole[:3]) for part in parts)
            plan.take(at, at + job.limit_s, whole)
            job.record.start = int(at)
            job.record.planned_nodes = fold(c.nodes[part.row].name for part in parts)
            job.changed()
            _told(c, job, "Resources" if job.record.reason in ("None", "BeginTime", "") else job.record.reason)
            break


def _told(c: Controller, job: SimJob, why: str) -> None:
    if job.says(why):
        c.version += 1
