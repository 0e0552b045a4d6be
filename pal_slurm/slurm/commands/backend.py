"""The `cli` backend: Slurm through its own commands; every release from 22.05 on. In: edits. Out: model objects."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pal_slurm.model import Cluster, Edit, EditResult, Job, JobState, Reservation, Snapshot
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.commands.cluster import QUESTIONS, Machine, read_config, read_machine, read_passes, to_setup
from pal_slurm.slurm.commands.columns import Layout, rows
from pal_slurm.slurm.commands.read import QueueReader
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.commands.write import Writer
from pal_slurm.slurm.nodes import Site, to_cluster, to_reservation
from pal_slurm.slurm.port import Capabilities, Passes, Pulse, SchedulerSetup
from pal_slurm.slurm.records import HOLDS_RESOURCES, in_whole_nodes, to_job

_PULSE = Layout((("JobId", 12), ("ArrayTaskId", 24), ("State", 16), ("Reason", 34)))
PLAIN_SITE = Site()
SETTINGS_AGE_S = 60.0  # how long slurmctld's settings are believed


class CliSlurm:
    """Implements `Slurm`. `bin_dir`: where squeue, scontrol and sdiag are; None: on PATH."""

    name = "cli"

    def __init__(self, bin_dir: Path | None = None, site: Site = PLAIN_SITE, deadline_s: float = 15.0) -> None:
        self._commands = Commands(bin_dir, deadline_s)
        self._site = site
        self._reader = QueueReader(self._commands)
        self._writer = Writer(self._commands, self._reader)
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
        reservations = tuple(map(to_reservation, machine.reservations))
        whole = {partition.name for partition in machine.partitions if partition.exclusive}
        jobs = [in_whole_nodes(to_job(record), whole) for record in queue.records]
        return Snapshot(
            taken=taken,
            cluster=self._cluster(machine, reservations, taken),
            pending=tuple(sorted((j for j in jobs if j.pending), key=lambda j: (-j.priority, j.submit, j.id))),
            running=tuple(j for j in jobs if j.state is JobState.RUNNING),
            reservations=reservations,
            dropped_hints=sum(job.hint.dropped for job in jobs),
            unread=tuple(queue.unread),
        )

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        wanted = frozenset(ids)
        found = (to_job(record) for record in self._reader.some(list(wanted)).records)
        return {job.id: job for job in found if job.id in wanted and job.state is not JobState.OTHER}

    def apply(self, edits: Sequence[Edit]) -> list[EditResult]:
        if not edits:
            return []
        return self._writer.apply(edits, self.capabilities(), to_setup(self._config()).disable_job_shrink)

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

    def _cluster(self, machine: Machine, reservations: Sequence[Reservation], now: float) -> Cluster:
        site = self._site if self._site.racks is not None else replace(self._site, racks=machine.racks)
        return to_cluster(machine.nodes, machine.partitions, reservations, site, now)
