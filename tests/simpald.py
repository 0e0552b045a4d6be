"""pald's own cycle beside a SimSlurm, for fast tests. In: sbatch options, faults. Out: what became of jobs.

All in one process and in simulated time: a test of an hour takes milliseconds. `House.journal` is Slurm's own memory of
every update that it got, whatever pald believes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pal_slurm.model import EditKind, Intent, Knowledge
from pal_slurm.sim.daemon import SimPald, settings
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.sim.slurm.manners import PLAIN_MANNERS, Manners
from pal_slurm.sim.slurm.setup import SlurmSetup
from pal_slurm.sim.slurm.trouble import AnswerFate, Trouble
from pal_slurm.slurm.edits.rewrite import Rewrite
from pal_slurm.store import JobOutcome
from tests.simcluster import Sbatch, nodes

START = 1_800_000_000.0
SETUP = SlurmSetup(
    parameters="disable_job_shrink,sched_interval=5,bf_interval=5", main_s=5.0, backfill_s=5.0, limits_kill=False
)


class Crash(BaseException):
    """pald dies here, as of SIGKILL: nothing catches it."""


@dataclass
class Update:
    at: float
    target: str
    asked: Rewrite

    @property
    def pins(self) -> bool:
        return bool(self.asked.texts.get("nodes"))


@dataclass
class Watched(Trouble):
    """Keeps the journal; tests hang what goes wrong on it."""

    now: Callable[[], float]
    journal: list[Update] = field(default_factory=list)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)  # by verb
    after: dict[str, Callable[[], None]] = field(default_factory=dict)
    fates: list[AnswerFate | str] = field(default_factory=list)  # of the next updates
    stay: frozenset[str] = frozenset()  # jobs whose requeue slurmctld refuses
    each: Callable[[], None] = lambda: None  # before each update

    def asked(self, verb: str) -> None:
        self.before.get(verb, _nothing)()

    def answered(self, verb: str) -> None:
        self.after.get(verb, _nothing)()

    def update(self, target: str, asked: Rewrite) -> AnswerFate | str:
        self.each()
        self.journal.append(Update(self.now(), target, asked))
        if asked.requeue and target in self.stay:
            return "Requested operation is presently disabled"
        return self.fates.pop(0) if self.fates else AnswerFate.WHOLE


def _nothing() -> None:
    pass


class House:
    """A cluster of 4x4, Slurm, and at first one pald; `pald.yaml` keys by name as in `settings`."""

    def __init__(
        self,
        home: Path,
        template: Path,
        *,
        count: int = 4,
        release: str = "26.05",
        setup: SlurmSetup = SETUP,
        knowledge: Knowledge | None = None,
        shards: int = 0,
        **keys: object,
    ) -> None:
        """`template`: a migrated database; migrating takes longer than most of these tests."""
        self.home, self.keys, self.knowledge = home, keys, knowledge
        home.mkdir(exist_ok=True)
        shutil.copy(template, home / "pal.sqlite")
        names = [f"n{i + 1}" for i in range(count)]
        setup = replace(setup, release=f"{release}.5")
        self.controller = Controller(nodes(count, 4, shards=shards), {"gpu": names}, setup, START)
        self.watch = Watched(lambda: self.controller.now)
        self.slurm = SimSlurm(self.controller, trouble=self.watch)
        self.release = release
        self.lua_alive = True
        self.controller.plugin = Leasing(lambda now: self.lua_alive)
        self.pald = self.another()

    def another(self, name: str = "pald") -> SimPald:
        """A pald of its own host: the same database, another lock."""
        lock = {"leader": {"lock_file": str(self.home / f"{name}.lock")}}
        return SimPald(self.slurm, settings(self.home, {**lock, **self.keys}), self.knowledge)

    def restart(self) -> SimPald:
        """A new pald, after the old one was killed."""
        self.kill()
        self.pald = self.another()
        return self.pald

    def kill(self, pald: SimPald | None = None) -> None:
        """As a power cut: it leaves its lock to the kernel, and everything else as it is."""
        dead = (pald or self.pald).pald
        if dead.leader._fd is not None:
            os.close(dead.leader._fd)
            dead.leader._fd = None
        dead.store.close()

    @property
    def now(self) -> float:
        return self.controller.now

    @property
    def journal(self) -> list[Update]:
        return self.watch.journal

    def submit(self, *options: str, runs: float = 600.0, user: str = "u", manners: Manners = PLAIN_MANNERS) -> int:
        made = Sbatch(self.release, self.now).read(options)
        made.record.user = user
        return self.controller.submit(
            made.record,
            lambda job: runs,
            begin=made.begin,
            held=made.held,
            waits_for=made.after,
            recounts=made.recounts,
            said_requeue=made.said_requeue,
            manners=manners,
        )

    def have_run(self, seconds: float, user: str = "u", many: int = 50) -> None:
        """Before the first look: so long his jobs ran, as an earlier pald wrote it down."""
        ends = [int(START - 3600.0 + n) for n in range(many)]
        self.pald.pald.cycle.books.observer.outcomes.record(
            JobOutcome(900_000 + n, 1, int(end - seconds), "A", ("n1",), ((0,),), end=end, user=user)
            for n, end in enumerate(ends)
        )

    def job(self, number: int) -> SimJob:
        found = self.controller.find(number) or next((j for j in self.controller.done if j.record.id == number), None)
        assert found is not None, f"no job {number}"
        return found

    def state(self, number: int) -> str:
        return self.job(number).record.state

    def where(self, number: int) -> dict[str, tuple[int, ...]]:
        """Node -> slots of a running job."""
        job = self.job(number).job()
        return dict(zip(job.nodes, job.holds, strict=True))

    def waited(self, number: int) -> float:
        return self.job(number).started - START

    def live(self, seconds: float) -> None:
        """pald does its work."""
        self.pald.run_until(self.now + seconds)

    def alone(self, seconds: float) -> None:
        """Nobody does it."""
        self.controller.run_until(self.now + seconds)

    def user_edits(self, number: int, **record: object) -> None:
        """`scontrol update` by its user: fields of the record."""
        job = self.job(number)
        for name, value in record.items():
            setattr(job.record, name, value)
        job.changed()
        self.controller.stir()

    def intents(self, number: int | None = None, *kinds: EditKind) -> list[Intent]:
        ledger = self.pald.pald.cycle.books.ledger
        found = ledger.newest(10_000)[::-1] if number is None else ledger.of_job(number)
        return [intent for intent in found if not kinds or intent.edit.kind in kinds]

    def pins(self, number: int) -> list[Update]:
        """The pins of this job that reached Slurm."""
        return [u for u in self.journal if u.pins and u.target.partition("_")[0] == str(number)]
