"""Slurm through pyslurm, in its worker process. In: edits. Out: snapshots, jobs, edit results, as the port says.

The worker sends rows, this file makes model nouns of them. The fastest way to Slurm, for the releases that pyslurm can
be built against; edits go the way of `edits/apply.py`, as the cli backend's do.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Edit, EditResult, Job, JobState, OfRunning, Snapshot
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.commands.bound import bound
from pal_slurm.slurm.commands.cluster import read_config, read_partitions, read_topology, to_setup
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.commands.write import lift, started_often
from pal_slurm.slurm.commands.write import send as by_command
from pal_slurm.slurm.edits.apply import UNSENT, Heard, apply
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.nodes import PLAIN_WORDS, Machine, PartitionRecord, SiteWords
from pal_slurm.slurm.port import UNKNOWN, Capabilities, Left, Passes, Pulse, SchedulerSetup, Series, unbounded
from pal_slurm.slurm.pyslurm.messages import (
    ANSWER,
    HELLO,
    MACHINE,
    PASSES,
    PULSE,
    ROWS,
    SETUP,
    UNREAD,
    Setup,
    read,
)
from pal_slurm.slurm.pyslurm.process import WorkerProcess
from pal_slurm.slurm.records import JobRecord, to_jobs
from pal_slurm.slurm.snapshots import to_snapshot

WORKER = Path(__file__).with_name("worker")
EDITS_PER_CALL = 1000  # few together are read again one by one, many with all the queue: see the worker
SETUP_AGE_S = 60.0  # how long slurmctld's settings are believed
EDIT_S = 0.1  # what one edit may take on a slow slurmctld, beside the deadline of the call
IN_TIME = 0.9  # of that the worker may begin updates; then it has time for the last one, and to answer


class PyslurmSlurm:
    name = "pyslurm"
    keeps_at_once = EDITS_PER_CALL

    def __init__(
        self,
        python: Sequence[str],
        *,
        conf: str | None = None,
        site: SiteWords = PLAIN_WORDS,
        deadline_s: float = 20.0,
        start_deadline_s: float = 15.0,
        clock: Callable[[], float] = time.time,
        commands: Commands | None = None,
    ) -> None:
        """`python`: the interpreter that scripts/build-pyslurm made, with whatever has to stand before it.

        `commands`: pyslurm can't requeue a job only if it still runs, nor set its nice; None: as on PATH.
        """
        self.worker = WorkerProcess(
            (*python, str(WORKER)), hello={"conf": conf}, check=_check_hello, start_deadline_s=start_deadline_s
        )
        self._site = site
        self._deadline_s = deadline_s
        self._commands = commands or Commands(None, deadline_s)
        self._clock = clock
        self._setup: tuple[int, float, Setup] | None = None  # which worker told it, when, and what
        self._of_partitions: tuple[float, Mapping[str, PartitionRecord]] | None = None  # when, and what

    def capabilities(self) -> Capabilities:
        return capabilities_of(self._told().release)

    def setup(self) -> SchedulerSetup:
        told, untold = self._told(), self._untold()
        return SchedulerSetup(
            cluster_name=told.cluster,
            disable_job_shrink="disable_job_shrink" in told.scheduler,
            accrue_always=told.priority_type == "priority/basic" or "ACCRUE_ALWAYS" in told.priority_flags,
            scheduler_parameters=",".join(told.scheduler),
            plugins=told.plugins,
            task_prolog=untold.task_prolog if untold else "",
            preempts_by_tier=untold is not None and untold.preempts_by_tier,
            accounts_hold=untold is not None and untold.accounts_hold,
            private=untold.private if untold else UNKNOWN,
        )

    def _untold(self) -> SchedulerSetup | None:
        """What pyslurm does not tell; nothing where no command answers."""
        try:
            return to_setup(read_config(self._commands.read("scontrol", ("show", "config"))))
        except SlurmUnavailable:
            return None

    def snapshot(self) -> Snapshot:
        machine: list[Machine] = []
        jobs: list[Job] = []
        odd: list[str] = []

        def take(part: msgspec.Raw) -> None:
            if not machine:
                machine.append(read(MACHINE, part))
                return
            rows: list[JobRecord] = read(ROWS, part)
            jobs.extend(to_jobs(rows, self._site, odd))

        topology = read_topology(self._told().topology)
        with _no_collection():
            rest = read(UNREAD, self._call("snapshot", on_part=take))
        if not machine:
            raise SlurmUnavailable("the pyslurm worker sent a snapshot without nodes")
        machine[0].topology = topology
        for partition in machine[0].partitions:
            if (told := self._partitions().get(partition.name)) is not None:
                partition.billing, partition.rule, partition.by_user = told.billing, told.rule, told.by_user
                partition.oversubscribed = told.oversubscribed
        return to_snapshot(machine[0], jobs, self._site, [*rest.unread, *odd])

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        wanted = frozenset(ids)
        return {job.id: job for job in self.records(ids) if job.id in wanted and job.state is not JobState.OTHER}

    def apply(self, edits: Sequence[Edit], left_s: Left = unbounded, series: Series | None = None) -> list[EditResult]:
        return apply(edits, self, EDITS_PER_CALL, left_s, series)

    def able(self) -> tuple[Capabilities, bool]:
        return self.capabilities(), "disable_job_shrink" in self._told().scheduler

    def movable(self, qos: Collection[str], partitions: Collection[str]) -> None:
        self._site = self._site.with_movable(qos, partitions)

    def bound(self, jobs: Sequence[int]) -> dict[int, str]:
        return bound(self._commands, jobs)

    def lift(self, jobs: Sequence[int], left_s: Left = unbounded) -> None:
        lift(self._commands, jobs, left_s)

    def now(self) -> float:
        return self._clock()

    def pulse(self) -> Pulse:
        return read(PULSE, self._call("pulse"))

    def passes(self) -> Passes:
        return read(PASSES, self._call("passes"))

    def close(self) -> None:
        self.worker.close()

    def send(self, ready: Sequence[Ready], left_s: Left) -> list[Heard]:
        """What runs, whose nice is set, and what is excluded, by commands; first, for that may take a moment."""
        mine = [item for item in ready if not _by_command(item)]
        others = [item for item in ready if _by_command(item)]
        often = started_often(self._commands, [item for item in others if item.asked.requeue or item.asked.signal])
        fit = [item for item in others if item.before.id not in often]
        told = {id(item): often.get(item.before.id, Heard("")) for item in others}
        told |= zip(map(id, fit), by_command(self._commands, fit, left_s), strict=True)
        told |= zip(map(id, mine), self._send(mine, left_s) if mine else (), strict=True)
        return [told[id(item)] for item in ready]

    def _send(self, ready: Sequence[Ready], left_s: Left) -> list[Heard]:
        """The worker itself stops in time, whatever becomes of us; else it is stopped."""
        if (left := left_s()) <= 0:
            return [UNSENT] * len(ready)
        heard: list[Heard] = []

        def take(part: msgspec.Raw) -> None:
            answer = read(ANSWER, part)
            heard.append(Heard(answer.said) if answer.sent else UNSENT)

        within = min(left, self._deadline_s + EDIT_S * len(ready))
        args = {"updates": list(map(_update, ready)), "within_s": IN_TIME * within}
        self.worker.call("apply", args, deadline_s=within, on_part=take)
        if len(heard) != len(ready):
            raise SlurmUnavailable(f"the pyslurm worker answered {len(heard)} of {len(ready)} updates")
        return heard

    def records(self, ids: Iterable[int]) -> list[Job]:
        """All records of these jobs and arrays."""
        found: list[Job] = []

        def take(part: msgspec.Raw) -> None:
            rows: list[JobRecord] = read(ROWS, part)
            found.extend(to_jobs(rows, self._site, []))

        wanted = list(dict.fromkeys(ids))
        for first in range(0, len(wanted), EDITS_PER_CALL):
            few = wanted[first : first + EDITS_PER_CALL]
            self._call("jobs", {"ids": few}, on_part=take, extra_s=EDIT_S * len(few))
        return found

    def _told(self) -> Setup:
        """What slurm.conf says; a new worker may have found another slurmctld, and an admin may have changed it."""
        now = self._clock()
        if self._setup is None or self._setup[0] != self.worker.starts or not 0 <= now - self._setup[1] < SETUP_AGE_S:
            told = read(SETUP, self._call("setup"))
            self._setup = (self.worker.starts, now, told)
        return self._setup[2]

    def _partitions(self) -> Mapping[str, PartitionRecord]:
        """What pyslurm does not tell of them; nothing where no command answers."""
        now = self._clock()
        if self._of_partitions is None or not 0 <= now - self._of_partitions[0] < SETUP_AGE_S:
            try:
                told = read_partitions(self._commands.read("scontrol", ("show", "partition", "-o", "-a")))
            except SlurmUnavailable:
                told = {}
            self._of_partitions = (now, told)
        return self._of_partitions[1]

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


def _by_command(ready: Ready) -> bool:
    return isinstance(ready.edit, OfRunning) or ready.asked.nice is not None or "excluded" in ready.asked.texts


def _update(ready: Ready) -> dict[str, object]:
    """One update as the worker takes it."""
    numbers = {"min_nodes": ready.asked.min_nodes, "max_nodes": ready.asked.max_nodes}
    return {
        "target": ready.target,
        "begin": ready.asked.begin,
        "texts": dict(ready.asked.texts),
        "numbers": {name: number for name, number in numbers.items() if number is not None},
    }
