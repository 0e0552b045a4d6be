"""The run as a state machine. In: snapshots, our jobs, documents that arrive. Out: jobs submitted and cancelled.

    step: take in what arrived -> who is done -> give way -> cancel what waits -> submit on idle nodes -> how far

It keeps nothing on disk of its own: which nodes are done stands in the store, which are being done in Slurm. So a run
that was killed goes on where it stopped, and adopts its jobs.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.config.profile import ProfileSection
from pal_slurm.errors import BadInput, SlurmRefused
from pal_slurm.intake.directory import SpoolBusy
from pal_slurm.intake.reading_process import SpoolSilent
from pal_slurm.learning.run import Ingested, ingest
from pal_slurm.nightly.nodes import down, gpu_nodes, idle, in_the_way
from pal_slurm.nightly.window import Window
from pal_slurm.slurm.commands.batch import Batch, OurJob, Terms
from pal_slurm.slurm.port import Slurm
from pal_slurm.store import Store
from pal_slurm.store.nights import NightRepo
from pal_slurm.words import printable

WAITS_S = 20.0  # a job of ours that does not start within this lost its node to somebody
ARRIVES_S = 30.0  # after the end of a job, a shared file system may take that long to show its document
MOST_TRIES = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    nodes: tuple[str, ...] | None  # None: all with GPUs
    parallel: int
    since: float  # nodes measured since then are done
    window: Window | None


@dataclass(frozen=True, slots=True)
class NightProgress:
    total: int
    done: tuple[str, ...]
    running: tuple[str, ...]
    busy: tuple[str, ...]
    down: tuple[str, ...]
    failed: tuple[str, ...]
    finished: bool
    gave_way: int
    scores: int
    alerts: tuple[str, ...]


@dataclass
class _Job:
    node: str
    submitted: float
    ended: float | None = None


@dataclass
class ProfileRun:
    slurm: Slurm
    batch: Batch
    store: Store
    config: Config
    wanted: Wanted
    tell: Callable[[str], None] = lambda _: None
    _jobs: dict[int, _Job] = field(default_factory=dict)
    _tries: dict[str, int] = field(default_factory=dict)
    _gave_way: int = 0
    _scores: int = 0
    _alerts: list[str] = field(default_factory=list)

    def step(self, now: float) -> NightProgress:
        snapshot = self.slurm.snapshot()
        nodes = self._nodes(gpu_nodes(snapshot, self.config.profile.partition))
        ours = {job.id: job for job in self.batch.ours()}
        # what arrived, and who is done
        self._follow(ours, now)
        self._take_in(now)
        done = {node for node in NightRepo(self.store).nodes_measured(self.wanted.since) if node in nodes}
        self._judge_ended(done, now)
        failed = {node for node, tries in self._tries.items() if tries >= MOST_TRIES} - done
        # who has to leave
        window = self.wanted.window
        closed = window is not None and now >= window.closes
        running = {job.node for job in ours.values() if job.running}
        leave = self._leave(in_the_way(snapshot, running, ours), ours, now)
        if closed:
            self.batch.cancel([number for number in ours if number not in leave])
        # who comes next
        taken = done | failed | {job.node for job in ours.values()} | self._awaited()
        open_ = [node for node in nodes if node not in taken]
        idle_now = set() if closed or leave else idle(snapshot, self._minutes(now))
        asked = NightRepo(self.store).nodes_asked()  # a score there waits for a witness
        can = sorted((node for node in open_ if node in idle_now), key=lambda node: node not in asked)
        started = self._submit(can[: max(0, self.wanted.parallel - len(ours))], now)
        # how far
        at_work = sorted([*started, *(job.node for job in ours.values() if job.id not in leave)])
        off = down(snapshot) & set(open_)
        busy = [node for node in open_ if node not in started and node not in off]
        more = bool(at_work or leave or can or self._awaited() or (window is not None and busy))
        return NightProgress(
            total=len(nodes),
            done=tuple(node for node in nodes if node in done),
            running=tuple(at_work),
            busy=tuple(busy),
            down=tuple(sorted(off)),
            failed=tuple(sorted(failed)),
            finished=closed or not more,
            gave_way=self._gave_way,
            scores=self._scores,
            alerts=tuple(self._alerts),
        )

    def stop(self) -> None:
        """Leave nothing behind in the queue."""
        self.batch.cancel([job.id for job in self.batch.ours()])

    def _nodes(self, there: list[str]) -> list[str]:
        if not there:
            where = f"partition {self.config.profile.partition}" if self.config.profile.partition else "this cluster"
            raise BadInput(f"{where} has no node with GPUs: there is nothing to measure")
        if self.wanted.nodes is None:
            return there
        unknown = sorted(set(self.wanted.nodes) - set(there))
        if unknown:
            raise BadInput(f"--nodes: {', '.join(unknown[:5])}: no such node with GPUs in the partition")
        return [node for node in there if node in self.wanted.nodes]

    def _follow(self, ours: dict[int, OurJob], now: float) -> None:
        """Adopt jobs of an earlier run; notice those that ended."""
        for job in ours.values():
            self._jobs.setdefault(job.id, _Job(job.node, now))
        for number, mine in self._jobs.items():
            if number not in ours and mine.ended is None:
                mine.ended = now

    def _take_in(self, now: float) -> None:
        try:
            taken: Ingested = ingest(self.store, self.config, Path(self.config.profile.spool), now)
        except SpoolBusy:
            return  # somebody else does it right now
        except SpoolSilent as error:
            self.tell(str(error))
            return
        for told in taken.files:
            if told.said:
                self.tell(f"{told.name}: {told.fate}: {told.said}")
        self._scores += taken.rescored.scores
        self._alerts += [alert.said for alert in taken.rescored.alerts]

    def _judge_ended(self, done: Collection[str], now: float) -> None:
        """A job that ended and left no document is a try that failed."""
        for number, mine in list(self._jobs.items()):
            if mine.ended is None:
                continue
            if mine.node in done:
                del self._jobs[number]
            elif now - mine.ended > ARRIVES_S:
                del self._jobs[number]
                self._tries[mine.node] = self._tries.get(mine.node, 0) + 1
                self.tell(f"{mine.node}: job {number} ended and left no document; {self._said_by(mine.node)}")

    def _leave(self, needed: list[str], ours: dict[int, OurJob], now: float) -> set[int]:
        """Cancel our jobs that are in somebody's way, and those whose node was taken before they started."""
        way = {job.id for job in ours.values() if job.running and job.node in needed} if self._gives_way else set()
        late = {job.id for job in ours.values() if not job.running and now - self._jobs[job.id].submitted > WAITS_S}
        self.batch.cancel(sorted(way | late))
        for number in way | late:
            node = self._jobs.pop(number).node  # no try that failed: it will be done later
            if number in way:
                self._gave_way += 1
                self.tell(f"{node}: gave way to a waiting job")
        return way | late

    @property
    def _gives_way(self) -> bool:
        return self.config.profile.give_way

    def _minutes(self, now: float) -> float:
        """The time limit: what pal.yaml says, or until the window closes."""
        limit = self.config.profile.minutes
        if self.wanted.window is not None:
            limit = min(limit, (self.wanted.window.closes - now) / 60)
        return limit

    def _submit(self, nodes: list[str], now: float) -> list[str]:
        minutes = int(self._minutes(now))
        if minutes < 1 or not nodes:
            return []
        profile = self.config.profile
        terms = Terms(self._output(), profile.partition, profile.qos, profile.account)
        started = []
        for node in nodes:
            try:
                number = self.batch.submit(node, batch_script(profile, node), minutes, terms)
            except SlurmRefused as error:
                self._tries[node] = self._tries.get(node, 0) + 1
                self.tell(str(error))
                continue
            self._jobs[number] = _Job(node, now)
            started.append(node)
        return started

    def _output(self) -> str:
        """Where Slurm writes what jobs print, as pald's user."""
        logs = self.config.profile.logs
        if logs and (why := others_may_write(Path(logs))):
            self.tell(f"profile.logs: {logs} {why}; what jobs print is not kept")
        return "/dev/null" if not logs or why else f"{logs}/%N.out"

    def _said_by(self, node: str) -> str:
        if not self.config.profile.logs:
            return "set profile.logs to see what it prints"
        log = Path(self.config.profile.logs) / f"{node}.out"
        return f"see {log}{_last_line(log)}"

    def _awaited(self) -> set[str]:
        """Nodes whose job ended and whose document is on its way."""
        return {job.node for job in self._jobs.values() if job.ended is not None}


def others_may_write(directory: Path) -> str:
    """Why what is in there may be another user's; empty: it is not."""
    try:
        about, above = directory.lstat(), directory.parent.stat()
    except OSError as error:
        return f"can't be used: {error.strerror}"
    if not stat.S_ISDIR(about.st_mode):
        return "is not a directory"
    if about.st_uid not in (0, os.geteuid()) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "belongs to another user or can be written by others"
    if above.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not above.st_mode & stat.S_ISVTX:
        return f"can be replaced by others, who may write {directory.parent}"
    return ""


def batch_script(profile: ProfileSection, node: str) -> str:
    """The batch script. Without {spool} in the command what it prints is the document; whole, or not at all.

    Others may write the spool: a name there is made anew (cp -n: O_EXCL) and unforeseeable; no directory is entered.
    """
    spool = shlex.quote(profile.spool)
    if "{spool}" in profile.command:
        return f"#!/bin/sh\numask 022\n{profile.command.replace('{spool}', spool)}\n"
    return (
        f"#!/bin/sh\numask 022\nname=profile-{node}-$SLURM_JOB_ID.json\nmade=$(mktemp) || exit 1\n"
        f'{{ {profile.command}\n}} >"$made"\ncode=$?\n'
        f'if [ -s "$made" ]; then\n  chmod 644 "$made"\n  part=$(mktemp -u {spool}/".$name.XXXXXXXXXX")\n'
        f'  cp -nT "$made" "$part" && mv -T "$part" {spool}/"$name" || code=1\nfi\nrm -f "$made"\nexit $code\n'
    )


def _last_line(log: Path) -> str:
    """`: ` and what the job said last; nothing where it said nothing, or can't be read here."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 1000))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    said = next((text for line in reversed(lines) if (text := printable(line).strip())), "")
    return f": {said}" if said else ""
