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
from pal_slurm.daemon.between import TROUBLE, Meanwhile, give_sign, lease_now, next_look, pause_after
from pal_slurm.daemon.build import Pald, build
from pal_slurm.daemon.clock import Clock, SystemClock
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.ready import warnings
from pal_slurm.daemon.sdnotify import notify
from pal_slurm.daemon.unswept import unswept
from pal_slurm.daemon.wake import TICK_S
from pal_slurm.errors import PalError, SlurmUnavailable, StoreError

SETTINGS_S = 60.0  # after so long slurm.conf is asked for again
log = logging.getLogger("pald")


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
        if pald.cycle.rules.parts:
            pald.cycle.books.gpu_limits.begin(clock.monotonic())
        if once:
            return _once(pald)
        pald.state.figures.keep_serving()
        pald.state.users.keep_serving()
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
    asked, again = clock.monotonic(), False
    while not flags.stop:
        if flags.reload or again:
            flags.reload = False
            pald, over = _reload(pald, path, dry_run)
            again = not over
        with pald.faults.contained("bell", also=PalError):
            pald.waker.mark()
        with unswept():
            report = pald.cycle.run()
        _tell(pald, report, clock)
        if report.end == "gone":
            return StoreError.exit_code
        if report.end == "ok" and clock.monotonic() >= asked + SETTINGS_S:
            asked = clock.monotonic()
            pald = _ask_settings(pald)
        _wait(pald, report, flags, clock)
    return 0


def _tell(pald: Pald, report: CycleReport, clock: Clock) -> None:
    """Whoever is to know how the cycle was; none of them is worth the next cycle."""
    state = pald.state
    with pald.faults.contained("figures", also=PalError):
        state.figures.keep_serving()
        report.aside = "; ".join(filter(None, (state.figures.trouble, _too_seldom(pald, report))))
        state.metrics.observe(report)
    with pald.faults.contained("users", also=PalError):
        state.users.keep_serving()
    with pald.faults.contained("alive", also=PalError):
        give_sign(pald, report, clock)
    with pald.faults.contained("sentence", also=PalError):
        _log(report)
        notify("WATCHDOG=1", f"STATUS={report.sentence[:200]}")
    with pald.faults.contained("status", also=PalError):
        _say(pald, report, clock)
    with pald.faults.contained("showing", also=PalError):
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
        if pald.told is not None or notes != pald.state.said.notes():
            pald.state.said.say(notes, clock.now())
        pald.told = notes
    except StoreError as e:
        log.debug("palctl status can't be told: %s", e)


def _too_seldom(pald: Pald, report: CycleReport) -> str:
    if report.end != "ok" or report.shadow or lease_now(pald, report) is not None:
        return ""
    apart = report.took_s + pause_after(pald, report)
    return f"reading takes slurmctld so long that looks are {apart:.0f} s apart: new jobs get no lease"


def _wait(pald: Pald, report: CycleReport, flags: Flags, clock: Clock) -> None:
    gap, meanwhile = pause_after(pald, report), Meanwhile(pald, report, clock)
    most = max(gap, next_look(report, pald.config.cycle.interval_s))
    until = clock.monotonic() + most

    def interrupted() -> bool:
        meanwhile()
        return flags.any

    with pald.faults.contained("bell", also=PalError):
        pald.waker.wait(gap, most, interrupted)
        return
    while clock.monotonic() < until and not interrupted():  # nobody rings any more: reading keeps to its share
        clock.sleep(TICK_S)


def _ask_settings(pald: Pald) -> Pald:
    """After `scontrol reconfigure` nobody thinks of a reload of ours."""
    with pald.faults.contained("settings", also=PalError):
        try:
            anew = pald.asked_anew()
            if anew is not pald:
                pald = anew
                log.info("slurm.conf has changed: %s", pald.describe())
                for said in warnings(pald.setup, pald.config):
                    log.warning("%s", said)
        except SlurmUnavailable as e:
            log.debug("slurm.conf can't be asked for: %s", e)
    return pald


def _reload(pald: Pald, path: Path, dry_run: bool) -> tuple[Pald, bool]:
    """Whether that is over: what only waits for slurmctld is tried again."""
    notify("RELOADING=1")
    over = True
    with pald.faults.contained("reload", also=PalError):
        try:
            pald = pald.reloaded(_config(path, dry_run))
            log.info("reloaded %s: %s", path, pald.describe())
        except SlurmUnavailable as e:
            over = False
            log.warning("kept the old configuration until slurmctld answers: %s", e)
        except (PalError, OSError) as e:
            first = str(e).partition("\n")[0]
            pald.refused = f"{path} was refused at the last reload; what it said before counts on: {first[:300]}"
            log.error("kept the old configuration, because the new one is wrong: %s", e)
    notify("READY=1")
    return pald, over


def _log(report: CycleReport) -> None:
    level = logging.ERROR if report.end == "fault" else logging.WARNING if report.end in TROUBLE else logging.INFO
    log.log(level, "%s", report.sentence)
