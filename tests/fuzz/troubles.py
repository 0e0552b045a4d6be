"""What goes wrong with pald, its database and its answers. In: happenings that wait for a point. Out: trouble, there.

`Points` sits where the simulated Slurm and the store let themselves be disturbed, and counts who comes by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from pal_slurm.errors import SlurmUnavailable, StoreError
from pal_slurm.model import Snapshot
from pal_slurm.sim.slurm.trouble import AnswerFate, Trouble
from pal_slurm.slurm.edits.rewrite import Rewrite
from pal_slurm.store import Store
from tests.fuzz.script import Happening
from tests.fuzz.seen import START, SeenSlurm

FATES = {"half": AnswerFate.HALF, "twice": AnswerFate.TWICE, "drop": AnswerFate.LOST}
REFUSED = "Requested operation is presently disabled"


class Crash(BaseException):
    """pald dies here, as of SIGKILL: nothing catches it."""


class BenchBroke(BaseException):
    """The bench itself is wrong; pald is not to take it for a fault of its own."""


@dataclass
class Armed:
    """Happenings that wait for somebody to come by their point."""

    waiting: list[Happening] = field(default_factory=list)

    def due(self, point: str, now: float) -> Iterator[Happening]:
        for item in list(self.waiting):
            if item.point != point or item.at > now:
                continue
            self.waiting.remove(item)
            if item.skip:
                self.waiting.append(replace(item, skip=item.skip - 1))
            else:
                yield item


@dataclass
class Points(Trouble):
    """Of one pald."""

    armed: Armed
    happens: Callable[[Happening], None]  # what is not the business of this file
    now: Callable[[], float]
    slurm: SeenSlurm = field(init=False)
    no_store: float = -1.0  # the database can't be used until then
    lost: bool = False
    old_s: float = 0.0
    kept: list[tuple[Snapshot, int]] = field(default_factory=list)  # and how much had happened by then
    since: int = 0

    def come_by(self, point: str) -> list[Happening]:
        here = list(self.armed.due(point, self.now()))
        for item in here:
            if item.what == "lost":
                self.lost = True
            elif item.what == "old":
                self.old_s = float(item.words[0])
            elif item.what == "nostore":
                self.no_store = self.now() + float(item.words[0])
            try:
                self.happens(item)
            except Exception as error:
                raise BenchBroke(f"{item}: {error!r}") from error
        return here

    # --- questions and answers

    def asked(self, verb: str) -> None:
        self.come_by(f"{verb}.asked")
        self._lose()
        self.since = len(self.slurm.heard.events)

    def answered(self, verb: str) -> None:
        self.come_by(f"{verb}.answered")
        self._lose()

    def _lose(self) -> None:
        if self.lost:
            self.lost = False
            raise SlurmUnavailable("no answer in time")

    def told(self, fresh: Snapshot) -> Snapshot:
        self.kept = [*self.kept[-30:], (fresh, self.since)]
        told = self.kept[-1]
        if self.old_s:
            old = (kept for kept in reversed(self.kept) if kept[0].taken <= fresh.taken - self.old_s)
            told, self.old_s = next(old, self.kept[0]), 0.0
        looks = self.slurm.looks
        looks.content, looks.content_n = told[0].taken - START, told[1]
        return replace(told[0], taken=fresh.taken)

    def update(self, target: str, asked: Rewrite) -> AnswerFate | str:
        for item in self.come_by("update"):
            if item.what in FATES:
                self.slurm.fate = item.what.upper()
                return FATES[item.what]
            if item.what == "refuse":
                self.slurm.fate = "REFUSED"
                return REFUSED
        return AnswerFate.WHOLE

    # --- the database

    def disturb(self, store: Store, ledger: Callable[[], bool]) -> None:
        """`ledger`: whether the ledger is being written just now."""
        reading, writing = store.reading, store.writing

        @contextmanager
        def read() -> Iterator[Connection]:
            self.come_by("read")
            self._store_is_there()
            with reading() as db:
                yield db

        @contextmanager
        def write() -> Iterator[Connection]:
            kind = "ledger" if ledger() else "write"
            self.come_by(f"{kind}.begun")
            self._store_is_there()
            with writing() as db:
                yield db
                self.come_by(f"{kind}.done")
                self._store_is_there()
            for item in self.come_by(f"{kind}.committed"):
                if item.what == "forgot":
                    raise StoreError("database: the connection was lost")

        store.reading, store.writing = read, write  # type: ignore[method-assign]

    def _store_is_there(self) -> None:
        if self.now() < self.no_store:
            raise StoreError("database: it is locked, or away")
