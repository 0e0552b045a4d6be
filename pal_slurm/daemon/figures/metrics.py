"""Figures for Prometheus. In: cycle reports, faults. Out: the text of the `pal_*` metrics; serving.py serves it.

Only our own: Slurm exports its own figures. Labels are bounded: no job, user or application names.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pal_slurm import __version__
from pal_slurm.daemon.faults import PLACES
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.model import Ending


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        Gauge("pal_build_info", "Version of pal-slurm.", ["version"], registry=r).labels(__version__).set(1)
        self.last = Gauge("pal_last_cycle_timestamp_seconds", "When the last cycle ended.", registry=r)
        self.leader = Gauge("pal_leader", "1 while this pald is the one that writes.", registry=r)
        self.waiting = Gauge("pal_jobs_leased", "Jobs that wait under a lease.", registry=r)
        self.watched = Gauge("pal_pins_watched", "Pins that have not started yet.", registry=r)
        self.cycles = Counter("pal_cycles_total", "Cycles by how they ended.", ["end"], registry=r)
        self.faults = Counter("pal_faults", "Faults of pald itself, by where they were.", ["where"], registry=r)
        for where in PLACES:
            self.faults.labels(where)  # shown as 0: Prometheus sees no increase in a series that begins with 1
        self.edits = Counter("pal_edits_total", "Edits by kind and outcome.", ["kind", "outcome"], registry=r)
        self.refusals = Counter("pal_refusals_total", "Decisions that the guard refused.", ["reason"], registry=r)
        self.undos = Counter("pal_undos_total", "Pins taken back.", registry=r)
        self.moving = Gauge("pal_jobs_moving", "Jobs between two places.", registry=r)
        self.moves = Counter("pal_moves", "Moves of running jobs by how they ended.", ["ending"], registry=r)
        for ending in Ending:
            self.moves.labels(ending.value)
        week = "GPU seconds that the moves of seven days lost, and brought as far as it was measured."
        self.week = Gauge("pal_moves_gpu_seconds", week, ["what"], registry=r)
        self.stopped = Gauge("pal_moves_stopped", "1: moves cost more than they brought, and have stopped.", registry=r)
        untold = "1: Slurm does not tell the weights of accounts; the last that it told stand."
        self.untold = Gauge("pal_weights_untold", untold, registry=r)
        self.dropped = Gauge("pal_hints_dropped", "Jobs in the queue whose comment can't be trusted.", registry=r)
        self.unread = Gauge("pal_records_unread", "Records of the queue that could not be understood.", registry=r)
        self.known = Gauge("pal_scores_known_ratio", "Scores known and fresh, of all classes and GPUs.", registry=r)
        buckets = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
        self.duration = Histogram("pal_cycle_duration_seconds", "A cycle, whole.", buckets=buckets, registry=r)
        self.reading = Histogram(
            "pal_snapshot_duration_seconds", "Reading the queue once.", buckets=buckets, registry=r
        )

    def observe(self, report: CycleReport) -> None:
        self.last.set(report.ended)
        self.leader.set(report.leader)
        self.cycles.labels(report.end).inc()
        self.duration.observe(report.took_s)
        if report.read_s is not None:
            self.reading.observe(report.read_s)
            self.waiting.set(report.leased)
            self.watched.set(report.expected)
            self.dropped.set(report.dropped_hints)
            self.unread.set(report.unread)
            self.known.set(report.scores_known)
            self.untold.set(report.untold)
        self.moving.set(report.moving)
        for ending, n in report.moved.items():
            self.moves.labels(ending).inc(n)
        if report.week is not None:
            self.week.labels("lost").set(report.week.lost_gpu_s)
            self.week.labels("brought").set(report.week.brought_gpu_s)
            self.stopped.set(report.week.stopped)
        for (kind, outcome), n in report.edits.items():
            self.edits.labels(kind, outcome).inc(n)
        for reason, n in report.refusals.items():
            self.refusals.labels(reason).inc(n)
        self.undos.inc(report.undone)

    def fault(self, where: str) -> None:
        self.faults.labels(where).inc()

    def text(self) -> bytes:
        """What Prometheus reads."""
        return generate_latest(self.registry)
