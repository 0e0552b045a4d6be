"""pald's life. In: pal.yaml, signals. Out: cycles until SIGTERM. Signal handlers only set flags."""

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
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.ready import warnings
from pal_slurm.daemon.sdnotify import notify
from pal_slurm.errors import PalError, StoreError

log = logging.getLogger("pald")
TROUBLE = ("unavailable", "store", "gone", "stale", "denied")


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
        pald.metrics.serve(pald.config.metrics.listen)
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
        pald.waker.mark()
        report = pald.cycle.run()
        pald.metrics.observe(report)
        _log(report)
        _alive(pald, report, clock)
        notify("WATCHDOG=1", f"STATUS={report.sentence[:200]}")
        if report.end == "gone":
            return StoreError.exit_code
        # Who stands by, or can't go on, asks slurmctld nothing in between.
        idle = report.end in (*TROUBLE, "standby")
        least = pald.config.cycle.interval_s if idle else LEAST_GAP_S
        gap = max(0.0, pald.cycle.pace.gap_s(least) - report.took_s)
        pald.waker.wait(gap, max(gap, pald.config.cycle.interval_s), lambda: flags.any)
    return 0


LEAST_GAP_S = 0.2


def _reload(pald: Pald, path: Path, dry_run: bool) -> None:
    notify("RELOADING=1")
    try:
        pald.reload(_config(path, dry_run))
        log.info("reloaded %s: %s", path, pald.describe())
    except PalError as e:
        log.error("kept the old configuration, because the new one is wrong: %s", e)
    notify("READY=1")


def _alive(pald: Pald, report: CycleReport, clock: Clock) -> None:
    """job_submit.lua gives leases only while this file is fresh: not while we stand by, shadow, pause or fail."""
    name = pald.config.cycle.alive_file
    if name and report.end == "denied":
        Path(name).unlink(missing_ok=True)
    if not name or not report.leader or report.shadow or report.end != "ok":
        return
    path = Path(name)
    fresh = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(f"{int(clock.now())}\n", encoding="ascii")
        fresh.chmod(0o644)  # slurmctld reads it as another user, and the unit's umask hides files from others
        fresh.replace(path)
    except OSError as e:
        log.warning("cycle.alive_file: can't write %s: %s; job_submit.lua will give no leases", path, e.strerror)


def _log(report: CycleReport) -> None:
    level = logging.WARNING if report.end in TROUBLE else logging.INFO
    log.log(level, "%s", report.sentence)
