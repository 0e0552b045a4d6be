"""pald itself beside a SimSlurm, in simulated time. In: a SimSlurm, a Config, what is known. Out: pald's own cycles.

Nothing of pald is replaced but what would wait: its clock is the simulated one, and instead of polling the queue it is
woken by what polling would have found. Where nothing waits it sleeps until something does: its cycles would do nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pal_slurm.config import Config
from pal_slurm.daemon.beside.thread import Beside
from pal_slurm.daemon.between import Meanwhile, give_sign, next_look, pause_after
from pal_slurm.daemon.build import Pald, build
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.unswept import unswept
from pal_slurm.errors import ConfigError
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.model import NO_SHARES, Cluster, EditKind, Knowledge, Outcome
from pal_slurm.model.gpu_limits import NOBODY_LIMITED
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.clock import SimClock

PULSE_S = 0.25  # between two looks at a queue in which nobody rang
ALIVE_FOR_S = 60.0  # job_submit.lua believes pald's sign of life for so long


class AtOnce(Beside):
    """What pald does in a thread is done when it is begun: a thread would run by the wall clock."""

    def begin(self, work: Callable[[], None]) -> bool:
        self._run(work)
        return True


class Sign(Alive):
    """pald's sign of life, as job_submit.lua would read it."""

    beat_at: float = -math.inf
    told_s: int | None = None  # how long a lease shall be

    def _write(self, now: float, lines: list[str]) -> None:
        self.beat_at, self.told_s = now, self.lease_s

    def gone(self) -> None:
        super().gone()
        self.beat_at = -math.inf


class Told(KnowledgeKeeper):
    """Knowledge that is given instead of read."""

    told: Knowledge

    def read(self, cluster: Cluster, now: float) -> Knowledge:
        return self.told


def settings(home: Path, keys: Mapping[str, Any]) -> Config:
    """pal.yaml for a simulated cluster: no file to watch, no job passes. `keys`: section by section."""
    fixed: dict[str, Any] = {
        "actuator": "pin", "state_dir": str(home), "cycle": {"wake_file": "", "alive_file": ""},
        "lease": {"let_through": False, "spare_preempting": False}, "metrics": {"listen": ""},
        "learning": {"enabled": False},
    }  # fmt: skip
    for key, value in keys.items():
        fixed[key] = {**fixed.get(key, {}), **value} if isinstance(value, Mapping) else value
    try:
        return msgspec.convert(fixed, Config, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{error}.") from error


@dataclass
class Effort:
    """What pald did."""

    cycles: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    edits: Counter[tuple[str, str]] = field(default_factory=Counter)
    put_off: int = 0

    def add(self, report: CycleReport) -> None:
        self.cycles += 1
        self.ends[report.end] += 1
        self.edits.update(report.edits)
        self.put_off += report.put_off

    def done(self, *kinds: EditKind) -> int:
        return sum(n for (kind, outcome), n in self.edits.items() if kind in kinds and outcome == Outcome.DONE)


class SimPald:
    """One pald; `alive` is its sign of life, as job_submit.lua would read it."""

    def __init__(self, slurm: SimSlurm, config: Config, knowledge: Knowledge | None = None) -> None:
        self.slurm, self.clock, self.config = slurm, SimClock(slurm.controller), config
        self.effort = Effort()
        self._idle = False  # sleeping, where pald would make one empty cycle after the other
        self.pald: Pald = build(config, self.clock, slurm)
        self.pald.state.alive = self.pald.cycle.writer.alive = Sign(None)
        books = self.pald.cycle.books
        books.forgetter.beside, books.learner.beside = AtOnce("forgetting"), AtOnce("learning")
        books.entitling.beside, books.entitling.ask = AtOnce("entitling"), lambda: NO_SHARES
        books.gpu_limits.beside, books.gpu_limits.ask = AtOnce("limits"), lambda: NOBODY_LIMITED
        books.entitling.cpu = lambda: 0.0  # of this machine: a simulation is the same on each
        self._knowledge = knowledge
        self._tell()

    def _tell(self) -> None:
        if self._knowledge is not None:
            keeper = Told(self.pald.state.store, self.config)
            keeper.told = self._knowledge
            self.pald.cycle.books.knowledge = keeper

    @property
    def sign(self) -> Sign:
        assert isinstance(self.pald.state.alive, Sign)
        return self.pald.state.alive

    def reload(self, config: Config) -> None:
        """SIGHUP, with this in pal.yaml."""
        self.pald, self.config = self.pald.reloaded(config), config
        self._tell()

    def alive(self, now: float) -> bool:
        return self._idle or now - self.sign.beat_at <= ALIVE_FOR_S

    def cycle(self) -> CycleReport:
        """One cycle, and its sign of life."""
        with unswept():
            report = self.pald.cycle.run()
        self.effort.add(report)
        give_sign(self.pald, report, self.clock)
        return report

    def run_until(self, when: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Cycles as pald's main loop would time them."""
        c = self.slurm.controller
        while c.now < when and not stop():
            begun = c.now
            seen = c.version
            report = self.cycle()
            pause = pause_after(self.pald, report)
            seen = c.version if not report.edits else seen
            self._pause(report, min(when, c.now + pause))
            self._idle = report.end == "ok" and not c.pending and not report.moving
            most = math.inf if self._idle else begun + max(pause, next_look(report, self.config.cycle.interval_s))
            self._sleep(seen, min(when, most), stop)
            self._idle = False

    def _pause(self, report: CycleReport, until: float) -> None:
        c, meanwhile = self.slurm.controller, Meanwhile(self.pald, report, self.clock)
        while c.now < until:
            c.run_until(min(until, meanwhile.due))
            meanwhile()

    def _sleep(self, seen: int, until: float, stop: Callable[[], bool]) -> None:
        c = self.slurm.controller
        while c.version == seen and c.now < until and not stop():
            c.run_until(min(until, c.next_event))
        if c.now < until and c.version != seen:
            c.run_until(min(until, c.now + PULSE_S))

    def close(self) -> None:
        self.pald.close()
