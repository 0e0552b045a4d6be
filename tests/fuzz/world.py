"""One script, lived through: the real pald beside a simulated Slurm. In: Script. Out: History.

Nothing of pald is replaced: its store is a file in memory, its writer, leader, ledger and planner are the shipped ones.
It wakes as its main loop would; while one of two palds is held up, the other and the cluster go on.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, field, replace
from functools import partial

from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.past import Past
from pal_slurm.daemon.undo import ours, undo
from pal_slurm.model import Snapshot
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.sim.slurm.machine import Node
from pal_slurm.sim.slurm.setup import SlurmSetup
from pal_slurm.slurm.port import Slurm
from pal_slurm.store import Ledger, open_store
from tests.fuzz import hints, users
from tests.fuzz.history import History, Submitted
from tests.fuzz.offers import Offers
from tests.fuzz.palds import MOST_CYCLES, Handle, Palds
from tests.fuzz.scores import put_scores
from tests.fuzz.script import SETTINGS, Happening, Script
from tests.fuzz.seen import START, Disk, Overheard, SeenController
from tests.fuzz.troubles import Armed, Crash
from tests.simcluster import nodes

SETUP = SlurmSetup(
    parameters="disable_job_shrink,sched_interval=10,bf_interval=10", main_s=10.0, backfill_s=10.0, limits_kill=False
)
GPUS = 4
MEND_S = 30.0  # after the last trouble: nodes are well, holds are released, a dead pald is started anew
DEAD_S, ALIVE_S = 60.0, 60.0  # the dead man's timer, and how long job_submit.lua believes in a sign of life
MOST_S = 1200.0  # beyond the mend


def machine(script: Script) -> list[Node]:
    """Its nodes; a model that is told of one is told of all."""
    found, told = nodes(int(script["nodes"]), GPUS, shards=int(script["shards"])), script["models"].split(",")
    for number, node in enumerate(found):
        node.features = f"{told[min(number, len(told) - 1)]},rack1"
    return found


@dataclass
class Bench(Palds):
    numbers: dict[int, int] = field(default_factory=dict)
    away: bool = False  # nobody starts pald any more

    def __post_init__(self) -> None:
        s = self.script
        shutil.copy(self.template, self.home / "pal.sqlite")
        self.actuator = s["actuator"]
        setup = replace(SETUP, release=f"{s['release']}.5", read_s=float(s["read_s"]))
        count = int(s["nodes"])
        names = [f"n{i + 1}" for i in range(count)]
        self.heard = Overheard()
        self.offers = Offers(self.numbers)
        self.c = c = SeenController(machine(s), {"gpu": names, "rest": names[1:]}, setup, START)
        c.heard = self.heard
        c.plugin = Leasing(self.alive, told=self.lease)
        self.armed = Armed([item for item in s.happenings if item.point])
        self.disk = Disk(self.home / "pal.sqlite")
        put_scores(s["scores"], self.home / "pal.sqlite", names, START)
        if s["hints"] == "forged":
            hints.put_shown(self.home / "pal.sqlite", START)
        options = {line: job.options for line, job in enumerate(s.jobs)}
        self.history = History(
            dict.fromkeys(names, GPUS), {name: s[name] for name in SETTINGS}, options, self.heard.events
        )
        self.history.users = {line: job.user for line, job in enumerate(s.jobs)}
        for line, job in enumerate(s.jobs):
            c.at(START + job.at, partial(self.submit, line))
        for item in s.happenings:
            if not item.point:
                c.at(START + item.at, partial(self.happens, item, None))
        self.mended = s.last + MEND_S
        c.at(START + self.mended, self.mend)
        c.at(START + DEAD_S, self.dead_mans_timer)

    # --- the cluster

    def submit(self, line: int) -> None:
        job = self.script.jobs[line]
        number = self.numbers[line] = users.submit(self.c, self.script["release"], line, job, self.heard.lines)
        found = self.c.find(number)
        assert found is not None
        self.heard.events.append(Submitted(self.now, self.heard.record(found)))

    def alive(self, now: float) -> bool:
        """By what job_submit.lua reads."""
        palds = [(h, h.pald) for h in self.handles.values() if h.pald is not None]
        return any(h.idle or now - p.sign.beat_at <= ALIVE_S for h, p in palds) and self.actuator != "shadow"

    def lease(self) -> int | None:
        """Beside the newest sign of life."""
        signs = [h.pald.sign for h in self.handles.values() if h.pald is not None]
        newest = max(signs, key=lambda sign: sign.beat_at, default=None)
        return newest.told_s if newest is not None else None

    def mend(self) -> None:
        self.armed.waiting.clear()
        self.offers.wanted.clear()
        self.offers.swaps.clear()
        for handle in self.handles.values():
            if handle.points is not None:
                handle.points.no_store = -1.0
        self.c.answers = True
        for node in self.c.nodes:
            if node.state:
                self.c.set_node(node.name, "")
        for line in self.numbers:
            self.user(line, "release", ())
        if self.disk.path.exists():
            self._switch("resume")
        if not self.away:
            self.start("pald")
        self.history.mended = self.now

    def dead_mans_timer(self) -> None:
        self.c.at(self.c.now + DEAD_S, self.dead_mans_timer)
        if self.script["deadman"] == "yes" and not self.alive(self.c.now) and self.c.answers:
            self.undo_all(blind=False)

    def undo_all(self, *, blind: bool) -> None:
        """`palctl undo --all`; `blind`: by hand, where the database can't be read."""
        slurm = self.port("admin", 0, SimSlurm(self.c).trouble)
        snapshot = slurm.snapshot()
        theirs = frozenset[int]() if blind else self._users_nodes(slurm, snapshot)
        undo(slurm, ours(snapshot, theirs), snapshot.taken, theirs)

    def _users_nodes(self, slurm: Slurm, snapshot: Snapshot) -> frozenset[int]:
        if not self.disk.path.exists():
            return frozenset()
        store = open_store(f"sqlite:///{self.disk.path}")
        try:
            return Past(Ledger(store, slurm.setup().cluster_name), Entries()).users_nodes(snapshot)
        finally:
            store.close()

    # --- what happens

    def happens(self, item: Happening, handle: Handle | None) -> None:
        """`handle`: who came by; none: at its time."""
        words, at = item.words, handle or self.handles.get("pald")
        if item.what in users.DEEDS:
            self.user(int(words[0]), item.what, words[1:])
        elif item.what == "node":
            users.node(self.c, words[0], words[1])
        elif item.what in ("kill", "stall", "clock", "lost", "old", "nostore", "forgot", "dbgone"):
            if at is not None:
                self._trouble(item, at, handle is not None)
        elif item.what == "slurmctld":
            self.told(float(words[0]), "slurmctld", "")
            self.c.answers = False
            self.c.at(self.c.now + float(words[0]), self.c.restart)
        elif item.what == "second":
            if ahead := float(words[0]):
                self.told(ahead, "clock", "second")
            self.start("second", ahead)
        elif item.what in ("pause", "resume"):
            self.told(math.inf if item.what == "pause" else 0.0, item.what, "")
            self._switch(item.what)
        elif item.what in ("offer", "swap"):
            self.offers.put(item.what, item.words)
            self.c.version += 1  # somebody looks
        elif item.what == "shadow":
            self._comes_to_shadow()
        elif item.what == "undo" and self.c.answers:
            self.told(0.0, "undo", "")
            self.undo_all(blind=True)

    def user(self, line: int, what: str, words: tuple[str, ...]) -> None:
        number = self.numbers.get(line)
        if number is not None and (event := users.did(self.c, number, line, what, words)) is not None:
            self.heard.events.append(event)

    def _comes_to_shadow(self) -> None:
        """Its admin says so in pal.yaml, and starts it anew."""
        self.told(math.inf, "shadow", "")
        self.actuator = "shadow"
        for handle in self.handles.values():
            self.kill(handle)
            self.c.at(self.c.now + 1.0, partial(self.start, handle.name))

    def _switch(self, what: str) -> None:
        """By the file, as with the database away."""
        path = self.home / "paused"
        path.write_text(f"{int(self.c.now)} drawn\n") if what == "pause" else path.unlink(missing_ok=True)

    def _trouble(self, item: Happening, at: Handle, here: bool) -> None:
        seconds = math.inf if item.words == ("never",) else float(item.words[0]) if item.words else 0.0
        self.told(seconds, item.what, at.name, item.point)
        if item.what == "clock" and at.pald is not None:
            self.set_clock(at, at.ahead + seconds)
        elif item.what == "stall" and here:
            self.live(min(self.now + seconds, self.mended + MOST_S))
            if at.doomed:
                raise Crash
        elif item.what == "dbgone":
            self.disk.close()
            for file in self.home.glob("pal.sqlite*"):
                file.unlink()
        elif item.what == "kill" and at.pald is not None:
            if seconds < math.inf:
                self.c.at(self.c.now + seconds, partial(self.start, at.name))
            else:
                self.away = True
            if here:
                raise Crash
            self.kill(at)

    def run(self) -> History:
        """Until all is over, or for long enough that it should be."""
        try:
            self.start("pald")
            self.live(self.mended + 1.0)
            while self.now < self.mended + MOST_S and self.cycles < MOST_CYCLES and (self.c.pending or self.c.running):
                self.live(self.now + 20.0)
            self.live(self.now + 12.0)
        finally:
            for handle in self.handles.values():
                self.busy.clear()
                self.kill(handle)
        h = self.history
        h.ended = self.now
        h.restless = self.cycles >= MOST_CYCLES
        h.ledger = self.disk.ledger()
        h.left = [self.heard.record(job) for job in self.c.pending.values()]
        self.disk.close()
        return h
