"""The `cli` backend: Slurm through its own commands; every release from 22.05 on. In: edits. Out: model objects."""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from pal_slurm.model import Edit, EditResult, Job, JobState, Snapshot
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.commands.bound import bound
from pal_slurm.slurm.commands.cluster import QUESTIONS, read_config, read_machine, read_passes, to_setup
from pal_slurm.slurm.commands.columns import Layout, rows
from pal_slurm.slurm.commands.read import QueueReader
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.commands.write import BATCH, lift, send
from pal_slurm.slurm.edits.apply import Heard, apply
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.nodes import PLAIN_WORDS, SiteWords
from pal_slurm.slurm.port import Capabilities, Left, Passes, Pulse, SchedulerSetup, Series, unbounded
from pal_slurm.slurm.records import HOLDS_RESOURCES, to_jobs
from pal_slurm.slurm.snapshots import to_snapshot

_PULSE = Layout((("JobId", 12), ("ArrayTaskId", 24), ("State", 16), ("Reason", 34)))
SETTINGS_AGE_S = 60.0  # how long slurmctld's settings are believed


class CliSlurm:
    """Implements `Slurm`. `bin_dir`: where squeue, scontrol and sdiag are; None: on PATH."""

    name = "cli"
    keeps_at_once = BATCH  # squeue has the whole queue told for more than a few jobs, after each batch

    def __init__(self, bin_dir: Path | None = None, site: SiteWords = PLAIN_WORDS, deadline_s: float = 15.0) -> None:
        self._commands = Commands(bin_dir, deadline_s)
        self._site = site
        self._reader = QueueReader(self._commands)
        self._settings: tuple[float, dict[str, str]] | None = None

    def capabilities(self) -> Capabilities:
        return capabilities_of(self._config()["SLURM_VERSION"])

    def setup(self) -> SchedulerSetup:
        self._settings = None
        return to_setup(self._config())

    def snapshot(self) -> Snapshot:
        taken = time.time()
        queue = self._reader.queue()
        machine = read_machine(self._commands.show(QUESTIONS))
        machine.taken = taken
        jobs = list(to_jobs(queue.records, self._site, queue.unread))
        return to_snapshot(machine, jobs, self._site, queue.unread, queue.too_long)

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        wanted = frozenset(ids)
        return {job.id: job for job in self.records(ids) if job.id in wanted and job.state is not JobState.OTHER}

    def apply(self, edits: Sequence[Edit], left_s: Left = unbounded, series: Series | None = None) -> list[EditResult]:
        return apply(edits, self, BATCH, left_s, series)

    def able(self) -> tuple[Capabilities, bool]:
        return self.capabilities(), to_setup(self._config()).disable_job_shrink

    def records(self, ids: Iterable[int]) -> list[Job]:
        return list(to_jobs(self._reader.some(list(dict.fromkeys(ids))).records, self._site, []))

    def send(self, ready: Sequence[Ready], left_s: Left) -> list[Heard]:
        return send(self._commands, ready, left_s)

    def movable(self, qos: Collection[str], partitions: Collection[str]) -> None:
        self._site = self._site.with_movable(qos, partitions)

    def bound(self, jobs: Sequence[int]) -> dict[int, str]:
        return bound(self._commands, jobs)

    def lift(self, jobs: Sequence[int], left_s: Left = unbounded) -> None:
        lift(self._commands, jobs, left_s)

    def now(self) -> float:
        return time.time()

    def pulse(self) -> Pulse:
        answer = self._commands.read("squeue", ("-h", "-a", "-r", "-S", "i", "-O", _PULSE.option))
        found = rows(answer, _PULSE)
        states = [row.get("State") for row in found]
        return Pulse(
            pending=states.count("PENDING"),
            running=sum(state in HOLDS_RESOURCES for state in states),
            newest_job=max((int(row.get("JobId")) for row in found), default=0),
            digest=zlib.crc32(answer),
        )

    def passes(self) -> Passes:
        return read_passes(self._commands.read("sdiag", ()))

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def _config(self) -> dict[str, str]:
        now = time.monotonic()
        if self._settings is None or self._settings[0] < now - SETTINGS_AGE_S:
            self._settings = (now, read_config(self._commands.read("scontrol", ("show", "config"))))
        return self._settings[1]
