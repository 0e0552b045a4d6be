"""Keeps the sight fresh. In: pald's file, the database. Out: a Sight, and word of each new one.

One thread reads, however many pages are open: each second whether pald wrote its file anew, a little less often what
the ledger has new, seldom scores and gains. What can't be read is told on the page, and what was read before stays.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from pal_slurm.config import Config
from pal_slurm.errors import BadInput, PalError, StoreError
from pal_slurm.learning.knowledge import score_table
from pal_slurm.page.sight import Gains, Ledgered, ScoreMarks, Sight
from pal_slurm.report.fleet import PlannedWith, gpus_of
from pal_slurm.report.gain import gain_rows, gained, gained_share
from pal_slurm.report.inventory import cluster_of
from pal_slurm.report.present import MOST_BYTES, Present, from_bytes
from pal_slurm.store import (
    DecisionRepo,
    GpuRepo,
    Leadership,
    Ledger,
    OutcomeRepo,
    ScoreRepo,
    Store,
    Switches,
    open_store,
)
from pal_slurm.store.clusters import known_clusters
from pal_slurm.store.nights import NightRepo

log = logging.getLogger("pal-page")
TICK_S = 1.0
LEDGER_S, SCORES_S, GAINS_S, AGAIN_S = 2.0, 10.0, 900.0, 5.0
OLD_SCORES_S = 600.0  # scores grow stale, though nobody writes any
WEEK_S = 7 * 86_400.0
EDITS = 50
ALERTS = 20


@dataclass
class Lookout:
    config: Config
    url: str
    heard: Callable[[Sight], None] = lambda sight: None  # called in the watcher's thread
    sight: Sight = field(default_factory=Sight)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _store: Store | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _file: tuple[int, ...] = ()  # of which the present was made
    _revision: int = -1
    _due: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._due["gains"] = time.monotonic() + TICK_S  # a week of jobs takes a while: nobody waits for it at the start

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10.0)
        self._close()

    def _run(self) -> None:
        while not self._stop.wait(TICK_S):
            try:
                self.look()
            except Exception:
                log.exception("a fault of pal-page; what it saw before stays")

    def look(self) -> Sight:
        """Once: whatever is due."""
        before = self.sight
        seen = self._step("what pald sees", 0.0, before, self._present)
        seen = self._step("the ledger", LEDGER_S, seen, self._ledger)
        seen = self._step("scores", SCORES_S, seen, self._scores)
        seen = self._step("gains", GAINS_S, seen, self._gains)
        if seen is not before:
            seen = replace(seen, number=before.number + 1)
            self.sight = seen
            self.heard(seen)
        return self.sight

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[Store, str]]:
        """The database and the cluster; StoreError where there is none to be had."""
        try:
            store = self._opened()
            yield store, self._cluster(store)
        except StoreError:
            self._close()  # it may have been replaced, or upgraded: look again
            raise

    def _step(self, what: str, every: float, sight: Sight, read: Callable[[Sight], Sight]) -> Sight:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return sight
        try:
            seen = read(sight)
        except (PalError, OSError) as error:
            self._due[what] = now + max(AGAIN_S if every else 0.0, 0.0)
            said = str(error)
            if sight.troubles.get(what) == said:
                return sight
            log.warning("%s: %s", what, said)
            return replace(sight, troubles={**sight.troubles, what: said})
        self._due[what] = now + every
        if what in seen.troubles:
            log.info("%s: can be read again", what)
            seen = replace(seen, troubles={key: said for key, said in seen.troubles.items() if key != what})
        return seen

    def _present(self, sight: Sight) -> Sight:
        path = self.config.page.view(self.config.cycle.alive_file)
        if path is None:
            raise BadInput("pald writes nothing down: set page.view_file in pal.yaml")
        try:
            found = path.stat()
        except FileNotFoundError:
            raise BadInput(f"there is no {path}: pald has not run here yet, or is of another release") from None
        mark = (found.st_ino, found.st_mtime_ns, found.st_size)
        if mark == self._file:
            return sight
        present = _read(path)
        self._file = mark
        return replace(sight, present=present)

    def _ledger(self, sight: Sight) -> Sight:
        with self.reading() as (store, cluster):
            ledger, now = Ledger(store, cluster), time.time()
            pause, term = Switches(store).paused(), Leadership(store, cluster).current()
            found = Ledgered(
                edits=tuple(ledger.newest(EDITS)),
                open=len(ledger.open()),
                leader=term.owner if term is not None and term.expires > now else "",
                paused=pause.told if pause else "",
                alerts=tuple(NightRepo(store).alerts(now - WEEK_S)[:ALERTS]),
            )
        return sight if found == sight.ledger else replace(sight, ledger=found)

    def _scores(self, sight: Sight) -> Sight:
        with self.reading() as (store, _):
            revision, now = ScoreRepo(store).revision(), time.time()
            if revision == self._revision and time.monotonic() < self._due.get("old scores", 0.0):
                return sight
            stays = GpuRepo(store).current()
            cluster = cluster_of(stays)
            table = score_table(store, self.config, cluster, now)
            known = PlannedWith(stays, cluster, table, self.config.scores.stale_after_days)
            stored = [score for score in ScoreRepo(store).placed() if score.cls in table.classes]
        gpus = {(gpu.node, gpu.slot): gpu for gpu in gpus_of(known, stored, now)}
        self._revision, self._due["old scores"] = revision, time.monotonic() + OLD_SCORES_S
        share = table.share_known(cluster) if gpus else 0.0
        return replace(sight, scores=ScoreMarks(table.classes, gpus, share))

    def _gains(self, sight: Sight) -> Sight:
        now = time.time()
        shadow = self.config.actuator == "shadow"
        with self.reading() as (store, cluster):
            decided = DecisionRepo(store, cluster).since(now - WEEK_S) if shadow else []
            found = gained(decided, OutcomeRepo(store, cluster).since(now - WEEK_S), now)
        return replace(sight, gains=Gains(now - WEEK_S, now, gained_share(found), tuple(gain_rows(found)), shadow))

    def _opened(self) -> Store:
        with self._lock:
            if self._store is None:
                self._store = open_store(self.url, read_only=True)
            return self._store

    def _close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
            self._store = None

    def _cluster(self, store: Store) -> str:
        """The one that pald names; else the only one that the database knows."""
        if named := self.sight.present.cluster:
            return named
        known = known_clusters(store)
        if len(known) != 1:
            raise StoreError(f"the database knows {len(known)} clusters, and pald has not named its own yet")
        return known[0]


def _read(path: Path) -> Present:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise BadInput(f"{path} is no file that pald wrote")
        return from_bytes(file.read(MOST_BYTES))
