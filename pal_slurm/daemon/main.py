"""pald's life. In: pal.yaml, signals. Out: cycles until SIGTERM. Signal handlers only set flags.

What goes wrong around the cycle is a line in the log and no more: pald ends when it is told to, or when its database
was removed under it.
"""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pal_slurm.config import Config, load
from pal_slurm.daemon.build import Pald, build
from pal_slurm.daemon.clock import Clock, SystemClock
from pal_slurm.daemon.leases.passing import SETTLED_S
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.ready import warnings
from pal_slurm.daemon.sdnotify import notify
from pal_slurm.daemon.wake import TICK_S
from pal_slurm.errors import PalError, StoreError

log = logging.getLogger("pald")
TROUBLE = ("unavailable", "store", "gone", "stale", "denied", "clock", "fault")


@dataclass
class Flags:
    stop: bool = False
    reload: bool = False

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._reload)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stop = True

    def _reload(self, _number: int, _frame: FrameType | None) -> None:
        self.reload = True

    @property
    def any(self) -> bool:
        return self.stop or self.reload


def serve(path: Path, *, once: bool = False, dry_run: bool = False) -> int:
    """Run pald on this configuration; returns the exit code."""
    flags = Flags()
    if threading.current_thread() is threading.main_thread():
        flags.install()
    clock = SystemClock()
    pald = build(_config(path, dry_run), clock)
    try:
        if once:
            return _once(pald)
        pald.figures.keep_serving()
        pald.users.keep_serving()
        notify("READY=1")
        log.info("started: %s", pald.describe())
        for said in warnings(pald.setup, pald.config):
            log.warning("%s", said)
        code = _loop(pald, flags, path, dry_run, clock)
    finally:
        notify("STOPPING=1")
        pald.close()
    log.info("stopped")
    return code


def _config(path: Path, dry_run: bool) -> Config:
    import msgspec

    config = load(path)
    return msgspec.structs.replace(config, actuator="shadow") if dry_run else config


def _once(pald: Pald) -> int:
    report = pald.cycle.run()
    _log(report)
    return {"ok": 0, "paused": 0}.get(report.end, 75)


def _loop(pald: Pald, flags: Flags, path: Path, dry_run: bool, clock: Clock) -> int:
    """Until SIGTERM, or until only a fresh start helps; the exit code."""
    while not flags.stop:
        if flags.reload:
            flags.reload = False
            _reload(pald, path, dry_run)
        with pald.faults.contained("bell"):
            pald.waker.mark()
        report = pald.cycle.run()
        _tell(pald, report, clock)
        if report.end == "gone":
            return StoreError.exit_code
        _wait(pald, report, flags, clock)
    return 0


def _tell(pald: Pald, report: CycleReport, clock: Clock) -> None:
    """Whoever is to know how the cycle was; none of them is worth the next cycle."""
    with pald.faults.contained("figures"):
        pald.figures.keep_serving()
        report.aside = pald.figures.trouble
        pald.metrics.observe(report)
    with pald.faults.contained("users"):
        pald.users.keep_serving()
    with pald.faults.contained("sentence"):
        _log(report)
        notify("WATCHDOG=1", f"STATUS={report.sentence[:200]}")
    with pald.faults.contained("alive"):
        _alive(pald, report, clock)
    with pald.faults.contained("status"):
        _say(pald, report, clock)
    with pald.faults.contained("showing"):
        pald.show(report, clock.monotonic())


def _say(pald: Pald, report: CycleReport, clock: Clock) -> None:
    """For `palctl status`: what is wrong with us, written down by the one who leads, when it changes."""
    if not report.leader:
        pald.told = None
        return
    notes = pald.notes
    if notes == pald.told:
        return
    try:
        if pald.told is not None or notes != pald.said.notes():
            pald.said.say(notes, clock.now())
        pald.told = notes
    except StoreError as e:
        log.debug("palctl status can't be told: %s", e)


def _wait(pald: Pald, report: CycleReport, flags: Flags, clock: Clock) -> None:
    # Who stands by, or can't go on, asks slurmctld nothing in between.
    interval = pald.config.cycle.interval_s
    least = interval if report.end in (*TROUBLE, "standby") else least_gap(report)
    gap = max(0.0, pald.faults.pause_s(interval), pald.cycle.pace.gap_s(least) - report.took_s)
    most = max(gap, next_look(report, interval))
    until = clock.monotonic() + most
    with pald.faults.contained("bell"):
        pald.waker.wait(gap, most, lambda: flags.any)
        return
    while clock.monotonic() < until and not flags.any:  # nobody rings any more: reading keeps to its share all the same
        clock.sleep(TICK_S)


LEAST_GAP_S = 0.05
MOST_GAP_S = 0.4
FOLLOW_S = 0.25  # a job between two places is looked after as often
BUSY = 4.0  # cycles begin so many times as far apart as they are long: a stream of jobs is taken in batches


def least_gap(report: CycleReport) -> float:
    """A single job on a quiet cluster is looked at at once; slurmctld starts what we let go once a second anyway."""
    return min(MOST_GAP_S, max(LEAST_GAP_S, BUSY * report.took_s))


def next_look(report: CycleReport, interval_s: float) -> float:
    """After a lease job_submit.lua lets nothing pass until a later snapshot says that nobody waits: soon, then."""
    if report.moving:
        return min(interval_s, FOLLOW_S)
    return min(interval_s, SETTLED_S) if report.leased and report.passing else interval_s


def _reload(pald: Pald, path: Path, dry_run: bool) -> None:
    notify("RELOADING=1")
    kept = "kept the old configuration, because the new one"
    with pald.faults.contained("reload"):
        try:
            pald.reload(_config(path, dry_run))
            log.info("reloaded %s: %s", path, pald.describe())
        except PalError as e:
            log.error("%s is wrong: %s", kept, e)
        except OSError as e:
            log.error("%s can't be read: %s", kept, e)
    notify("READY=1")


def _alive(pald: Pald, report: CycleReport, clock: Clock) -> None:
    """job_submit.lua gives leases only while this file is fresh: not while we stand by, shadow, pause or fail."""
    if report.end in ("denied", "clock"):
        pald.cycle.writer.alive.gone()
    elif report.leader and report.end == "ok" and pald.config.actuator == "exclude":
        pald.cycle.writer.alive.beat_beside(clock.now())
    elif report.leader and not report.shadow and report.end == "ok":
        pald.cycle.writer.alive.preempting = pald.preempting.heard(clock.monotonic())
        pald.cycle.writer.alive.beat(clock.now(), report.passing)


def _log(report: CycleReport) -> None:
    level = logging.ERROR if report.end == "fault" else logging.WARNING if report.end in TROUBLE else logging.INFO
    log.log(level, "%s", report.sentence)
