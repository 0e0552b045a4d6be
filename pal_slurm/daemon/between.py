"""Between two looks. In: how the last cycle was, what it cost. Out: when to look again; meanwhile our lead, our life.

At a large site looks are far apart, for reading takes at most its share of slurmctld's time (P8). job_submit.lua
believes a sign of life for a minute, and whoever stands by takes the place of a leader who is silent for longer than
leader.ttl_s; systemd ends a service that says nothing for WatchdogSec. So all three are told between looks, by the very
loop that will look next: one that hangs tells nobody.
New leases last for as long as our next look but one may be away.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from pal_slurm.daemon.build import Pald
from pal_slurm.daemon.clock import Clock
from pal_slurm.daemon.leases.passing import SETTLED_S
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.sdnotify import notify
from pal_slurm.errors import PalError

# Ends of a cycle after which there is no hurry.
TROUBLE = ("unavailable", "store", "gone", "stale", "denied", "clock", "fault")
LEAST_GAP_S = 0.05
MOST_GAP_S = 0.4
FOLLOW_S = 0.25  # a job between two places is looked after as often
BUSY = 4.0  # cycles begin so many times as far apart as they are long: a stream of jobs is taken in batches
KEEP_S = 10.0  # six times in the minute for which job_submit.lua believes us
OF_THE_LEAD = 1 / 3  # of leader.ttl_s


def least_gap(report: CycleReport) -> float:
    """A single job on a quiet cluster is looked at at once; slurmctld starts what we let go once a second anyway."""
    return min(MOST_GAP_S, max(LEAST_GAP_S, BUSY * report.took_s))


def next_look(report: CycleReport, interval_s: float) -> float:
    """After a lease job_submit.lua lets nothing pass until a later snapshot says that nobody waits: soon, then."""
    if report.moving:
        return min(interval_s, FOLLOW_S)
    return min(interval_s, SETTLED_S) if report.leased and report.passing else interval_s


def pause_after(pald: Pald, report: CycleReport) -> float:
    """Seconds from the end of this cycle in which slurmctld is asked nothing."""
    interval = pald.config.cycle.interval_s
    # Who stands by, or can't go on, asks slurmctld nothing in between.
    least = interval if report.end in (*TROUBLE, "standby") else least_gap(report)
    return max(0.0, pald.state.faults.pause_s(interval), pald.cycle.pace.gap_s(least) - report.took_s)


def lease_now(pald: Pald, report: CycleReport) -> int | None:
    """Seconds that a new job waits for us; None: we look so seldom that no lease would last."""
    return pald.cycle.leases.first(pald.config.lease.length_s, report.took_s + pause_after(pald, report))


def give_sign(pald: Pald, report: CycleReport, clock: Clock) -> None:
    """job_submit.lua gives leases only while this file is fresh: not while we stand by, shadow, pause or fail."""
    alive = pald.cycle.writer.alive
    if report.end in ("denied", "clock"):
        alive.gone()
    elif report.leader and report.end == "ok" and pald.config.actuator == "exclude":
        alive.beat_beside(clock.now())
    elif report.leader and not report.shadow and report.end == "ok":
        alive.lease_s = lease_now(pald, report)
        if alive.lease_s is None:
            alive.beat_beside(clock.now())  # or the dead man's timer would undo what we do
            return
        spares = pald.config.lease.spare_preempting
        alive.preempting = pald.state.preempting.heard(clock.monotonic()) if spares else ()
        alive.beat(clock.now(), report.passing)


@dataclass
class Meanwhile:
    """Call it while you wait, as often as you like."""

    pald: Pald
    report: CycleReport
    clock: Clock
    due: float = field(init=False)

    def __post_init__(self) -> None:
        self.due = self.clock.monotonic() + self.every_s

    @property
    def every_s(self) -> float:
        return min(KEEP_S, self.pald.config.leader.ttl_s * OF_THE_LEAD)

    def __call__(self) -> None:
        if self.clock.monotonic() < self.due:
            return
        self.due = self.clock.monotonic() + self.every_s
        notify("WATCHDOG=1")
        if not self.report.leader:
            return
        with self.pald.state.faults.contained("alive"), suppress(PalError):  # the next cycle says what is wrong
            self.pald.state.leader.hold()
            give_sign(self.pald, self.report, self.clock)
