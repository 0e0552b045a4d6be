"""Slurm through pyslurm, in its worker process. In: edits. Out: snapshots, jobs, edit results, as the port says.

The worker sends rows, this file makes model nouns of them. The fastest way to Slurm, for the releases that pyslurm can
be built against; edits are made by the same `rewrite` and judged by the same `judge` as the cli backend's.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Edit, EditResult, Job, JobState, Outcome, Snapshot
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.commands.cluster import racks_of
from pal_slurm.slurm.edits.insist import insist
from pal_slurm.slurm.edits.judge import judge
from pal_slurm.slurm.edits.prepare import Ready, prepare_all, record_of
from pal_slurm.slurm.nodes import Site, to_cluster, to_reservation
from pal_slurm.slurm.port import Capabilities, Passes, Pulse, SchedulerSetup
from pal_slurm.slurm.pyslurm.messages import (
    ANSWER,
    HELLO,
    MACHINE,
    PASSES,
    PULSE,
    ROWS,
    SETUP,
    UNREAD,
    Answer,
    Machine,
    Setup,
    read,
)
from pal_slurm.slurm.pyslurm.process import WorkerProcess
from pal_slurm.slurm.records import JobRecord, in_whole_nodes, to_job

WORKER = Path(__file__).with_name("worker")
EDITS_PER_CALL = 100
PLAIN_SITE = Site()
SETUP_AGE_S = 60.0  # how long slurmctld's settings are believed
EDIT_S = 0.1  # what one edit may take on a slow slurmctld, beside the deadline of the call

T = TypeVar("T")


class PyslurmSlurm:
    name = "pyslurm"

    def __init__(
        self,
        python: Sequence[str],
        *,
        conf: str | None = None,
        site: Site = PLAIN_SITE,
        deadline_s: float = 20.0,
        start_deadline_s: float = 15.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`python`: the interpreter that scripts/build-pyslurm made, with whatever has to stand before it."""
        self.worker = WorkerProcess(
            (*python, str(WORKER)), hello={"conf": conf}, check=_check_hello, start_deadline_s=start_deadline_s
        )
        self._site = site
        self._deadline_s = deadline_s
        self._clock = clock
        self._setup: tuple[int, float, Setup] | None = None  # which worker told it, when, and what

    def capabilities(self) -> Capabilities:
        return capabilities_of(self._told().release)

    def setup(self) -> SchedulerSetup:
        told = self._told()
        return SchedulerSetup(
            cluster_name=told.cluster,
            disable_job_shrink="disable_job_shrink" in told.scheduler,
            accrue_always=told.priority_type == "priority/basic" or "ACCRUE_ALWAYS" in told.priority_flags,
            scheduler_parameters=",".join(told.scheduler),
            plugins=told.plugins,
        )

    def snapshot(self) -> Snapshot:
        machine: list[Machine] = []
        jobs: list[Job] = []

        def take(part: msgspec.Raw) -> None:
            if not machine:
                machine.append(read(MACHINE, part))
                return
            rows: list[JobRecord] = read(ROWS, part)
            jobs.extend(map(to_job, rows))

        site = (
            self._site if self._site.racks is not None else replace(self._site, racks=racks_of(self._told().topology))
        )
        with _no_collection():
            rest = read(UNREAD, self._call("snapshot", on_part=take))
        if not machine:
            raise SlurmUnavailable("the pyslurm worker sent a snapshot without nodes")
        return _snapshot(machine[0], jobs, rest.unread, site)

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        wanted = frozenset(ids)
        return {job.id: job for job in self._records(ids) if job.id in wanted and job.state is not JobState.OTHER}

    def apply(self, edits: Sequence[Edit]) -> list[EditResult]:
        results: list[EditResult] = []
        broken = ""
        for few in _batches(edits, EDITS_PER_CALL):
            if not broken:
                done, broken = self._apply(few)
                results += done
        # What was not sent is as unknown as what was not answered: the next cycle finds out.
        results += [EditResult(edit, Outcome.UNKNOWN, broken) for edit in edits[len(results) :]]
        return results

    def pulse(self) -> Pulse:
        told = read(PULSE, self._call("pulse"))
        return Pulse(told.pending, told.running, told.newest, told.digest)

    def passes(self) -> Passes:
        told = read(PASSES, self._call("passes"))
        return Passes(told.main, told.backfill, told.threads, told.rpc_time_us, told.started)

    def close(self) -> None:
        self.worker.close()

    def _apply(self, edits: Sequence[Edit]) -> tuple[list[EditResult], str]:
        """Results of these edits, and why the worker can't go on, if it can't."""
        try:
            caps, may_name_nodes = self.capabilities(), self.setup().disable_job_shrink
            stands = self._records(edit.job for edit in edits)
        except SlurmUnavailable as error:
            return [EditResult(edit, Outcome.UNKNOWN, f"nothing was written: {error}") for edit in edits], str(error)
        made = prepare_all(edits, stands, caps, may_name_nodes, self._clock())
        ready = sorted((item for item in made if isinstance(item, Ready)), key=lambda item: item.turn)
        answers: dict[int, str] = {}
        try:
            insist(ready, lambda some: answers.update(self._send(some)), lambda item: answers[id(item)])
            after = self._records(home for item in ready for home in item.homes)
        except SlurmUnavailable as error:
            broken = str(error)
            return [_unknown(item, broken) if isinstance(item, Ready) else item for item in made], broken
        judged = {id(item): _verdict(item, answers[id(item)], after, self._clock()) for item in ready}
        return [judged[id(item)] if isinstance(item, Ready) else item for item in made], ""

    def _send(self, ready: Sequence[Ready]) -> dict[int, str]:
        """What slurmctld said of each update, by its identity."""
        answers: list[Answer] = []

        def take(part: msgspec.Raw) -> None:
            answers.append(read(ANSWER, part))

        self._call("apply", {"updates": list(map(_update, ready))}, on_part=take, extra_s=EDIT_S * len(ready))
        if len(answers) != len(ready):
            raise SlurmUnavailable(f"the pyslurm worker answered {len(answers)} of {len(ready)} updates")
        return {id(item): answer.said for item, answer in zip(ready, answers, strict=True)}

    def _records(self, ids: Iterable[int]) -> list[Job]:
        """All records of these jobs and arrays."""
        found: list[Job] = []

        def take(part: msgspec.Raw) -> None:
            rows: list[JobRecord] = read(ROWS, part)
            found.extend(map(to_job, rows))

        for few in _batches(dict.fromkeys(ids), EDITS_PER_CALL):
            self._call("jobs", {"ids": few}, on_part=take, extra_s=EDIT_S * len(few))
        return found

    def _told(self) -> Setup:
        """What slurm.conf says; a new worker may have found another slurmctld, and an admin may have changed it."""
        now = self._clock()
        if self._setup is None or self._setup[0] != self.worker.starts or not 0 <= now - self._setup[1] < SETUP_AGE_S:
            told = read(SETUP, self._call("setup"))
            self._setup = (self.worker.starts, now, told)
        return self._setup[2]

    def _call(
        self,
        verb: str,
        args: Mapping[str, object] | None = None,
        on_part: Callable[[msgspec.Raw], None] = lambda raw: None,
        extra_s: float = 0.0,
    ) -> msgspec.Raw:
        return self.worker.call(verb, args, deadline_s=self._deadline_s + extra_s, on_part=on_part)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Without garbage collection: thousands of new objects, none of them garbage, make it walk all of them again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _check_hello(raw: msgspec.Raw) -> None:
    if tuple(read(HELLO, raw).fields) != JobRecord.__struct_fields__:
        raise SlurmUnavailable(f"the pyslurm worker at {WORKER} is of another version of pal-slurm; restart pald")


def _snapshot(machine: Machine, jobs: list[Job], unread: list[str], site: Site) -> Snapshot:
    reservations = tuple(map(to_reservation, machine.reservations))
    whole = {partition.name for partition in machine.partitions if partition.exclusive}
    if whole:
        jobs = [in_whole_nodes(job, whole) for job in jobs]
    pending = [job for job in jobs if job.state is JobState.PENDING]
    pending.sort(key=lambda job: (-job.priority, job.submit, job.id))
    running = [job for job in jobs if job.state is JobState.RUNNING]
    return Snapshot(
        taken=machine.taken,
        cluster=to_cluster(machine.nodes, machine.partitions, reservations, site, machine.taken),
        pending=tuple(pending),
        running=tuple(running),
        reservations=reservations,
        dropped_hints=sum(job.hint.dropped for job in (*pending, *running)),
        unread=tuple(unread),
    )


def _update(ready: Ready) -> dict[str, object]:
    """One update as the worker takes it."""
    numbers = {"min_nodes": ready.asked.min_nodes, "max_nodes": ready.asked.max_nodes}
    return {
        "target": ready.target,
        "begin": ready.asked.begin,
        "texts": dict(ready.asked.texts),
        "numbers": {name: number for name, number in numbers.items() if number is not None},
    }


def _verdict(ready: Ready, said: str, after: Sequence[Job], now: float) -> EditResult:
    found = record_of(ready.before.id, ready.edit.task, after)
    return judge(ready.edit, ready.asked, ready.before, found, said, now)


def _unknown(ready: Ready, why: str) -> EditResult:
    return EditResult(ready.edit, Outcome.UNKNOWN, why)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
