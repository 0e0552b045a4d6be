"""The watcher of a node, or of one job on it. In: samples and step reports. Out: one file per job and part of time.

As a service it tells by the processes on a GPU whose job it serves; with `--job` all visible GPUs are that job's.
It wakes once per interval; samples that came in between wait in a pipe, step reports with a thread (step_socket.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.probe.claims import Claims
from pal_slurm.probe.clock import Clock
from pal_slurm.probe.devices import Sample
from pal_slurm.probe.document import Device, Fault, StepTimes, Usage
from pal_slurm.probe.errors import BadInput, NoDevices
from pal_slurm.probe.inventory import Inventory, take
from pal_slurm.probe.jobfile import JobFile, salvage
from pal_slurm.probe.owners import owner, user_of
from pal_slurm.probe.sampling import Sampler, summary
from pal_slurm.probe.step_socket import StepReport, StepSocket
from pal_slurm.probe.words import APP, JOB, plain

GONE_S = 60.0  # no process of a job on any GPU for so long: its part is closed


@dataclass(frozen=True, slots=True)
class WatchPlan:
    source: str
    spool: Path
    job: str | None
    interval: float
    line_s: float
    part_s: float
    socket: Path
    made_by: str
    proc: Path = Path("/proc")
    command: tuple[str, ...] = ()


@dataclass(slots=True)
class Watched:
    """One job, as far as this node sees it."""

    job: str
    seen: float
    line_begun: float
    claims: Claims
    user: int | None = None  # as the kernel tells
    part: int = 0
    file: JobFile | None = None
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    steps: list[StepTimes] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def uses(self, uuid: str | None) -> bool:
        return uuid in self.samples or (self.file is not None and uuid in {d.uuid for d in self.file.devices})


class Watcher:
    def __init__(self, plan: WatchPlan, inventory: Inventory, clock: Clock) -> None:
        self._plan, self._clock = plan, clock
        self._devices = {device.uuid: device for device in inventory.devices}
        self._node = inventory.devices[0].node if inventory.devices else socket.gethostname().partition(".")[0]
        self._jobs: dict[str, Watched] = {}
        self._begun = clock.now()
        self._app = os.environ.get("PAL_APP", "") if plan.job else ""

    @property
    def node(self) -> str:
        return self._node

    def sampled(self, uuid: str, sample: Sample) -> None:
        job = self._plan.job or owner(sample.pids, self._plan.proc)
        if job is not None:
            watched = self._watched(job)
            watched.samples.setdefault(uuid, []).append(sample)
            if watched.user is None and self._plan.job is None:
                watched.user = user_of(sample.pids, self._plan.proc)

    def reported(self, heard: StepReport) -> None:
        """A report counts if the kernel says that it comes from that job, and if it can be."""
        report = heard.report
        mine = heard.job is None and self._plan.job == report.job and heard.uid == os.getuid()
        if heard.job == report.job or mine:
            watched = self._watched(report.job)
            if watched.claims.believes(report.steps, heard.pid, heard.began, self._clock.now()):
                watched.steps.append(report.steps)
                watched.user = heard.uid

    def failed(self, fault: Fault) -> None:
        """A GPU in trouble is news for the jobs on it, and for the node's log."""
        sys.stderr.write(plain(f"pal-probe: {fault.uuid or self._node}: {fault.what}") + "\n")
        for watched in self._jobs.values():
            if self._plan.job is not None or watched.uses(fault.uuid):
                watched.faults.append(fault)

    def tick(self) -> None:
        """Write what is due."""
        now = self._clock.now()
        for watched in list(self._jobs.values()):
            gone = self._plan.job is None and now - watched.seen > max(GONE_S, 3 * self._plan.interval)
            if gone or now - watched.line_begun >= self._plan.line_s:
                self._flush(watched, now)
            if gone or (watched.file is not None and now - watched.file.begun_at >= self._plan.part_s):
                self._close(watched, now, last=gone)
            if gone:
                del self._jobs[watched.job]

    def end(self) -> None:
        now = self._clock.now()
        for watched in self._jobs.values():
            self._flush(watched, now)
            self._close(watched, now, last=self._plan.job is not None)
        self._jobs.clear()

    def _watched(self, job: str) -> Watched:
        now = self._clock.now()
        since = now if self._plan.job is None else self._begun
        watched = self._jobs.setdefault(job, Watched(job, now, now, Claims(since)))
        watched.seen = now
        return watched

    def _flush(self, watched: Watched, now: float) -> None:
        begun, samples, steps, faults = watched.line_begun, watched.samples, watched.steps, watched.faults
        watched.line_begun, watched.samples, watched.steps, watched.faults = now, {}, [], []
        if (told := watched.claims.told()) is not None:
            faults.append(Fault(told))
        if not samples and not steps and not faults:
            return
        devices = tuple(self._devices[uuid] for uuid in sorted(samples))
        file = self._file(watched, devices, begun, now)
        file.write((Usage(uuid, begun, now, summary(samples[uuid])) for uuid in sorted(samples)), steps, faults)

    def _file(self, watched: Watched, devices: tuple[Device, ...], begun: float, now: float) -> JobFile:
        """The part that is open; another one where the job got GPUs that the open one does not name."""
        if watched.file is not None and not {d.uuid for d in devices} <= {d.uuid for d in watched.file.devices}:
            self._close(watched, now, last=False)
        if watched.file is None:
            app = self._app if APP.fullmatch(self._app) else None
            watched.file = JobFile(
                self._plan.spool, watched.job, self._node, watched.part, self._plan.made_by, app, devices, begun,
                user=watched.user,
            )  # fmt: skip
            watched.part += 1
        return watched.file

    def _close(self, watched: Watched, now: float, last: bool) -> None:
        if watched.file is not None:
            watched.file.close(now, last)
            watched.file = None


def watch(plan: WatchPlan, clock: Clock) -> int:
    """Until SIGTERM, or until the command ends, whose exit code is the answer."""
    if plan.job is not None and not JOB.fullmatch(plan.job):
        raise BadInput(f"--job {plan.job!r} is no job's number")
    inventory = take(plan.source)
    if not inventory.found and not plan.command:
        raise NoDevices("there is no device to watch" + "".join(f"; {fault.what}" for fault in inventory.faults[:1]))
    watcher = Watcher(plan, inventory, clock)
    salvage(plan.spool, watcher.node, clock.now())
    stop = threading.Event()
    with _ended_by_signals(stop), _listening(plan) as ear, _running(plan, stop) as command:
        sampler = Sampler(inventory, plan.interval)
        sampler.start()
        try:
            while not stop.wait(plan.interval):
                _turn(watcher, sampler, ear)
            ear.close()
            _turn(watcher, sampler, ear)
        finally:
            watcher.end()
            sampler.end()
    return 0 if command is None or command.returncode is None else _exit_code(command.returncode)


def _turn(watcher: Watcher, sampler: Sampler, ear: StepSocket) -> None:
    known = len(sampler.faults)
    for uuid, timed in sampler.turn():
        watcher.sampled(uuid, timed.sample)
    for fault in sampler.faults[known:]:
        watcher.failed(fault)
    for heard in ear.turn():
        watcher.reported(heard)
    watcher.tick()


@contextlib.contextmanager
def _listening(plan: WatchPlan) -> Iterator[StepSocket]:
    ear = StepSocket(plan.socket, plan.proc)
    ear.open()
    try:
        yield ear
    finally:
        ear.close()


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _ended_by_signals(stop: threading.Event) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _running(plan: WatchPlan, stop: threading.Event) -> Iterator[subprocess.Popen[bytes] | None]:
    """The job's command, if we were given one; its end is ours, and our SIGTERM is its."""
    if not plan.command:
        yield None
        return
    env = {**os.environ, "PAL_PROBE_SOCKET": str(plan.socket)}
    try:
        command = subprocess.Popen(plan.command, env=env)
    except OSError as error:
        raise BadInput(f"{plan.command[0]}: can't be started: {error.strerror}") from error

    def wait() -> None:
        command.wait()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    try:
        yield command
    finally:
        if command.poll() is None:
            command.terminate()
            command.wait()
