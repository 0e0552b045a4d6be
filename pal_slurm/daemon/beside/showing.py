"""What pald sees, for others to see. In: each cycle's round and report. Out: the present, in memory and in one file.

Pages and users read that, however many they are: neither pald nor slurmctld is asked. It is made in a thread beside the
cycle, seldom enough to take a fiftieth of one core; who needs the truth of this second asks Slurm. When waiting jobs
will probably start is worked out there too, twice a minute at most, for as long as a second.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.faults import Faults
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round
from pal_slurm.model import Reason
from pal_slurm.policy.fill.easy import EASY
from pal_slurm.policy.seams import Fill
from pal_slurm.policy.start_forecast import Ahead, start_forecasts
from pal_slurm.report.present import Present, StartNow, present_of, to_bytes

EVERY_S = 2.0
FORECAST_EVERY_S, FORECAST_LASTS_S = 30.0, 1.0
SHARE = 0.02  # of a core
DECLINES = (Reason.BETTER_GPUS_SOON, Reason.BETTER_SPAN_SOON, Reason.BETTER_POOL_SOON)
log = logging.getLogger("pald")


@dataclass(frozen=True, slots=True)
class ShownBeside:
    """What stands beside the snapshot."""

    cluster: str
    actuator: str
    policy: str
    interval_s: float
    notes: tuple[str, ...]
    private: tuple[str, ...]  # as slurm.conf has it
    file: Path | None = None  # where to; None: nobody reads a file
    fill: Fill = EASY  # who may start before a job that does not fit


@dataclass
class Showing:
    faults: Faults = field(default_factory=Faults)
    present: Present | None = None  # the last one
    beside: Beside = field(init=False)
    _not_before: float = 0.0
    _forecast_not_before: float = 0.0
    _forecasts: dict[int, StartNow] = field(default_factory=dict)
    _forecast_at: float = 0.0
    _trouble: str = ""

    def __post_init__(self) -> None:
        self.beside = Beside("showing", self.faults)

    def begin_when_due(self, seen: Round | None, report: CycleReport, told: ShownBeside, now: float) -> bool:
        """`seen`: None, when this cycle saw nothing; what an earlier one saw then stands, with what this one said."""
        if now < self._not_before or self.beside.busy:
            return False
        self._not_before = now + EVERY_S
        return self.beside.begin(lambda: self._show(seen, report, told, now))

    def _show(self, seen: Round | None, report: CycleReport, told: ShownBeside, now: float) -> None:
        begun, forecast_s = time.thread_time(), 0.0
        if seen is not None:
            shown = present_of(
                seen.snapshot, seen.decisions, seen.knowledge.apps, cluster=told.cluster, actuator=told.actuator,
                policy=told.policy,
            )  # fmt: skip
            if now >= self._forecast_not_before:
                forecast_s = self._forecast(seen, told, [job.job for job in shown.waiting], now)
            waits = {job.job for job in shown.waiting}
            forecasts = {job: start for job, start in self._forecasts.items() if job in waits}
            self.present = replace(shown, forecasts=forecasts, forecast_at=self._forecast_at)
        present = self.present or Present(cluster=told.cluster, taken=0.0, actuator=told.actuator, policy=told.policy)
        self.present = replace(
            present, end=report.end, sentence=report.sentence, ended=report.ended, interval_s=told.interval_s,
            notes=told.notes, private=told.private,
        )  # fmt: skip
        if told.file is not None:
            self._write(told.file, to_bytes(self.present))
        self._not_before += (time.thread_time() - begun - forecast_s) / SHARE

    def _forecast(self, seen: Round, told: ShownBeside, order: Sequence[int], now: float) -> float:
        """What it took; a fault of ours there costs nobody the rest."""
        begun = time.thread_time()
        declining = {
            d.job: d.until for d in seen.decisions if d.reason in DECLINES and d.until is not None and d.task is None
        }
        ahead = Ahead(seen.snapshot, seen.knowledge, seen.run_times, told.fill, order, declining)
        self._forecasts, self._forecast_at = {}, seen.snapshot.taken
        with self.faults.contained("forecast"):
            found = start_forecasts(ahead, lambda: time.thread_time() - begun > FORECAST_LASTS_S)
            self._forecasts = {job: StartNow(*start) for job, start in found.items()}
        took_s = time.thread_time() - begun
        self._forecast_not_before = now + max(FORECAST_EVERY_S, took_s / SHARE)
        return took_s

    def _write(self, path: Path, data: bytes) -> None:
        """Whole or not at all; for our group only, as it names users."""
        fresh = path.with_name(f"{path.name}.new")
        try:
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640), "wb") as file:
                file.write(data)
            fresh.replace(path)
            self._trouble = ""
        except OSError as error:
            if self._trouble != (said := error.strerror or str(error)):
                log.warning("page.view_file: can't write %s: %s; pal-page shows no jobs", path, said)
            self._trouble = said
