"""The palds of a world: when each wakes, how it dies. In: time. Out: cycles, in one process and in simulated time.

Each wakes as its main loop would; while one of two is held up, the other and the cluster go on.
"""

from __future__ import annotations

import math
import os
import shutil
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from pal_slurm.daemon.between import Meanwhile, next_look, pause_after
from pal_slurm.errors import PalError
from pal_slurm.model import Action, Decision, FairShares, Intent, Reason
from pal_slurm.sim.daemon import PULSE_S, SimPald, settings
from pal_slurm.slurm.commands.shares import fair_shares
from pal_slurm.slurm.nodes import PLAIN_WORDS, SiteWords
from tests.fuzz import dues, hints, history, sharers
from tests.fuzz.history import CycleEnded
from tests.fuzz.offers import Offers
from tests.fuzz.script import Happening, Script
from tests.fuzz.seen import START, Disk, Looks, Overheard, SeenController, SeenSlurm, Target
from tests.fuzz.troubles import Armed, Crash, Points

Did = TypeVar("Did")
BETTER = (Reason.BETTER_GPUS_SOON, Reason.BETTER_SPAN_SOON, Reason.BETTER_POOL_SOON)
MOST_CYCLES = 1000  # a pald that makes more of them never comes to rest
# What the judge knows by its own copy (judge/moves.py).
MOVES = {
    "mode": "asked", "first_s": 10, "last_s": 20, "share": 0.5, "per_job": 2, "per_user": 6, "per_cluster": 8,
    "at_once": 2, "cost_s": 20, "margin": 2,
}  # fmt: skip


@dataclass
class Handle:
    """One pald, or the place of a dead one."""

    name: str
    ahead: float = 0.0  # its host's clock
    life: int = 0
    pald: SimPald | None = None
    points: Points | None = None
    seen: int = -1
    due: float = 0.0  # not sooner
    most: float = 0.0  # not later
    woken: float = math.inf
    idle: bool = False
    doomed: bool = False  # killed while it was held up
    writes_ledger: bool = False
    meanwhile: Meanwhile | None = None  # between two cycles


@dataclass
class Palds:
    script: Script
    home: Path
    template: Path
    handles: dict[str, Handle] = field(default_factory=dict)
    busy: list[Handle] = field(default_factory=list)
    cycles: int = 0
    actuator: str = ""
    offers: Offers = field(default_factory=Offers)
    c: SeenController = field(init=False)
    heard: Overheard = field(init=False)
    disk: Disk = field(init=False)
    armed: Armed = field(init=False)

    @property
    def now(self) -> float:
        return self.c.now - START

    @abstractmethod
    def happens(self, item: Happening, handle: Handle | None) -> None:
        """`handle`: who came by; none: at its time."""

    def set_clock(self, handle: Handle, ahead: float) -> None:
        """Of its host: all that pald reads the time of."""
        assert handle.pald is not None
        handle.ahead = handle.pald.clock.ahead_s = ahead
        assert isinstance(handle.pald.slurm, SeenSlurm)
        handle.pald.slurm.ahead = ahead

    def told(self, seconds: float, what: str, pald: str, point: str = "") -> None:
        until = math.inf if what == "clock" else self.now + seconds
        self.heard.events.append(history.Trouble(self.now, until, what, pald, point))

    def slurmdbd(self) -> FairShares:
        """What it says of who is to get how much."""
        return fair_shares(dues.Slurmdbd(self.script["shares"]), "sim")

    def port(self, pald: str, life: int, trouble: object) -> SeenSlurm:
        models = tuple(dict.fromkeys(self.script["models"].split(",")))
        site = SiteWords(models=models) if len(models) > 1 else PLAIN_WORDS
        slurm = SeenSlurm(self.c, site, trouble=trouble)  # type: ignore[arg-type]
        slurm.pald, slurm.life, slurm.heard, slurm.disk, slurm.looks = pald, life, self.heard, self.disk, Looks()
        return slurm

    def start(self, name: str, ahead: float | None = None) -> None:
        handle = self.handles.setdefault(name, Handle(name))
        if handle.pald is not None or handle in self.busy:
            return
        handle.ahead = handle.ahead if ahead is None else ahead
        if not self.disk.path.exists():
            shutil.copy(self.template, self.disk.path)
        handle.life += 1
        handle.doomed = handle.idle = False
        points = Points(self.armed, partial(self.happens, handle=handle), lambda: self.now)
        points.slurm = slurm = self.port(name, handle.life, points)
        config = settings(self.home, self._keys(name))
        try:
            handle.pald = SimPald(slurm, config)
        except PalError:  # slurmctld or the database is away: systemd tries again
            self.c.at(self.c.now + 5.0, partial(self.start, name))
            return
        self.set_clock(handle, handle.ahead)
        handle.pald.pald.cycle.books.entitling.ask = self.slurmdbd
        if self.actuator == "move" and self.script["moves"] == "offered":
            handle.pald.pald.cycle._proposals = self.offers  # type: ignore[method-assign, assignment]
        self._overhear_ledger(handle, points)
        handle.points, handle.seen, handle.due, handle.most = points, -1, self.c.now, self.c.now

    def _overhear_ledger(self, handle: Handle, points: Points) -> None:
        assert handle.pald is not None
        ledger = handle.pald.pald.cycle.books.ledger
        writing = ledger.write

        def write(planned: Sequence[Intent]) -> list[Intent]:
            handle.writes_ledger = True
            try:
                return writing(planned)
            finally:
                handle.writes_ledger = False

        ledger.write = write  # type: ignore[method-assign]
        points.disturb(handle.pald.pald.store, lambda: handle.writes_ledger)

    def _overhear_declines(self, pald: SimPald, decisions: Sequence[Decision], going: set[Target]) -> None:
        """`going`: where movers were on their way to when the cycle began."""
        assert isinstance(pald.slurm, SeenSlurm)
        still = sorted(going & self.disk.targets()) if going else []
        jobs = ((self.c.find(number), node, slots) for number, node, slots in still)
        targets = tuple((self.heard.record(job).job, node, slots) for job, node, slots in jobs if job is not None)
        for decision in decisions:
            job = self.c.find(decision.job) if decision.reason in BETTER and decision.action is Action.WAIT else None
            if job is not None and job.pending:
                name, pool = self.heard.record(job).job, decision.reason is Reason.BETTER_POOL_SOON
                self.heard.events.append(history.Declined(self.now, name, pool, pald.slurm.looks.content_n, targets))

    def kill(self, handle: Handle) -> None:
        """As a power cut: it leaves its lock to the kernel, and everything else as it is."""
        if handle in self.busy:
            handle.doomed = True
            return
        if handle.pald is not None:
            dead, handle.pald = handle.pald.pald, None
            if dead.leader._fd is not None:
                os.close(dead.leader._fd)
                dead.leader._fd = None
            dead.store.close()

    def _goes_on(self, handle: Handle) -> None:
        if handle.meanwhile is not None and self.c.now < max(handle.due, min(handle.woken, handle.most)):
            self._lived(handle, handle.meanwhile)
        else:
            self._cycle(handle)

    def _cycle(self, handle: Handle) -> None:
        pald = handle.pald
        assert pald is not None
        self.cycles += 1
        going = self.disk.targets() if self.actuator == "move" else set()
        began, handle.seen, handle.woken, handle.meanwhile = self.c.now, self.c.version, math.inf, None
        report = self._lived(handle, pald.cycle)
        if report is None:
            return
        self.heard.events.append(
            CycleEnded(began - START, self.now, handle.name, report.end, report.note, report.leader)
        )
        if report.end == "ok" and report.leader and not report.shadow and pald.pald.cycle.seen is not None:
            self._overhear_declines(pald, pald.pald.cycle.seen.decisions, going)
        if handle.doomed or report.end == "gone":
            self.kill(handle)
            if report.end == "gone":
                self.c.at(self.c.now + 2.0, partial(self.start, handle.name))
            return
        pause = pause_after(pald.pald, report)
        handle.meanwhile = Meanwhile(pald.pald, report, pald.clock)
        nothing = not self.c.pending and not self.c.running  # of those who run it learns how long they do
        handle.idle = report.end == "ok" and nothing
        handle.due = self.c.now + pause
        handle.most = math.inf if handle.idle else began + max(pause, next_look(report, pald.config.cycle.interval_s))
        handle.seen = self.c.version if not report.edits else handle.seen

    def _lived(self, handle: Handle, work: Callable[[], Did]) -> Did | None:
        """What it does; None: it died of it."""
        self.busy.append(handle)
        try:
            return work()
        except Crash:
            handle.doomed = True
            return None
        finally:
            self.busy.remove(handle)
            if handle.doomed:
                self.kill(handle)

    def live(self, until: float) -> None:
        while self.c.now < START + until and self.cycles < MOST_CYCLES:
            when = min(START + until, self.c.next_event)  # not from the beginning: sums of floats may fall short of it
            chosen = None
            for handle in self.handles.values():
                if handle.pald is None or handle in self.busy:
                    continue
                if self.c.version != handle.seen and handle.woken == math.inf:
                    handle.woken = self.c.now + PULSE_S
                at = max(handle.due, min(handle.woken, handle.most))
                if handle.meanwhile is not None and not handle.idle:
                    at = min(at, handle.meanwhile.due)
                if at <= when:
                    when, chosen = at, handle
            if chosen is not None and when <= self.c.now:
                self._goes_on(chosen)
            else:
                self.c.run_until(when)

    def _keys(self, name: str) -> dict[str, object]:
        """Of pal.yaml."""
        s = self.script
        return {
            "leader": {"lock_file": str(self.home / f"{name}.lock")},
            "budget": {
                "edits_per_s": float(s["edits_per_s"]),
                "start_share": 0.05 if s["edits_per_s"] == "20" else 0.0,
                "keep_share": 0.1 if s["edits_per_s"] == "20" else 0.0,
            },
            "canary": {"partitions": [s["canary"]] if s["canary"] else []},
            "actuator": self.actuator,
            "moves": MOVES,
            "policy": {"entitlement": s["entitlement"] or "none"},
            "apps": (
                (hints.APPS if s["hints"] == "forged" else {})
                | (
                    dues.APPS
                    if s["entitlement"] or "," in s["models"]
                    else sharers.APPS
                    if s["sharing"] == "yes"
                    else {}
                )
            ),
            "sharing": {"enabled": s["sharing"] == "yes", "pairs": sharers.PAIRS if s["sharing"] == "yes" else ()},
        }
