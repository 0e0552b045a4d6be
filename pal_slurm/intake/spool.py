"""A spool directory, taken in. In: files that nodes put there. Out: rows in the store; per file what became of it.

    DIR/NAME    waits; a name with a leading dot is still being written

A process of its own reads the spool (reader.py), which is never trusted; what becomes of a file stands in pal's own
directory (directory.py). A file is moved there after the transaction that stored it. Killed in between, the next run
finds it known and moves it: nothing counts twice, nothing is there in half.
"""

from __future__ import annotations

import os
import pwd
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pal_slurm.errors import BadInput, StoreError
from pal_slurm.intake.believing import NotYetKnown, believed
from pal_slurm.intake.directory import IntakeDirectory, kept_name
from pal_slurm.intake.documents import KernelClasses, alerts_of, store_document, store_reduces
from pal_slurm.intake.reader import Content, Entry, Failed, Listing, Unfit
from pal_slurm.intake.reading_process import ReaderDied, SpoolReader
from pal_slurm.intake.samples import samples_of
from pal_slurm.probe import limits
from pal_slurm.probe.document import Document, JobPart
from pal_slurm.store import Added, Delivery, GpuRepo, OutcomeRepo, ScoreRepo, Store
from pal_slurm.store.engine import ROWS_OWN
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.words import digits, printable

UNKNOWN_S = 600.0  # so long pald may take to see a job start
YOUNG_S = 10.0  # a copy that is not atomic may still be growing
ANSWER_S = 60.0  # so long a file system may take for one file
PASS_S = 300.0  # what is not read by then waits for the next run
_BATCH_FILES, _BATCH_RUNS = 500, 50_000  # a transaction: others want to write meanwhile


class FileFate(StrEnum):
    TAKEN = "taken"
    KNOWN = "known"  # it was taken before
    SET_ASIDE = "set aside"
    LEFT = "left"  # for the next run


@dataclass(frozen=True, slots=True)
class TakenFile:
    """What became of one file."""

    name: str
    fate: FileFate
    said: str = ""
    runs: int = 0
    samples: int = 0
    left_out: int = 0  # step reports that can't be


@dataclass(frozen=True, slots=True)
class _Ready:
    entry: Entry
    digest: str
    document: Delivery | None = None
    samples: tuple[JobSample, ...] = ()
    alerts: tuple[Alert, ...] = ()
    left_out: int = 0
    said: str = ""


@dataclass
class Spool:
    """One directory and the store it is taken into. `state`: pal's own directory."""

    directory: Path
    store: Store
    classes: KernelClasses
    state: Path
    cluster: str = ""
    _places: dict[str, tuple[str, int]] = field(default_factory=dict)
    _house: frozenset[int] | None = None  # whose files are the house's; None: everybody's who may write here

    def take(self, now: float) -> Iterator[TakenFile]:
        """Every file that waits; told once what became of it is on disk."""
        with IntakeDirectory(self.state) as self._own:
            keep = (self._own.lock, self._own.taken, self._own.aside)
            self._reader = SpoolReader(self.directory, self._own.mark, keep, ANSWER_S)
            try:
                yield from self._taken(now)
            finally:
                self._reader.end()

    def _taken(self, now: float) -> Iterator[TakenFile]:
        self._places = {stay.uuid: (stay.node, stay.slot) for stay in GpuRepo(self.store).current()}
        listing, until = self._reader.listing(), time.monotonic() + PASS_S
        self._house = house(listing)
        ready: list[_Ready] = []
        for entry in in_turn(listing.entries):
            if entry.file in self._own.seen:
                continue
            if time.monotonic() > until:
                break
            found = self._look(entry, now)
            if isinstance(found, TakenFile):
                yield found
                continue
            ready.append(found)
            if len(ready) >= _BATCH_FILES or _runs(ready) >= _BATCH_RUNS:
                yield from self._store(ready, now)
                ready = []
        yield from self._store(ready, now)
        self._own.remember(entry.file for entry in listing.entries)
        self._own.tidy()

    def _look(self, entry: Entry, now: float) -> _Ready | TakenFile:
        if entry.file == self._own.blamed:
            return self._aside(entry, "an earlier reader died while it read this; it is not read again")
        stranger = self._house is not None and entry.uid not in self._house
        most = limits.MOST_BYTES_OF["job"] if stranger else limits.MOST_BYTES
        try:
            found = self._reader.read(entry, most, now)
        except ReaderDied as error:
            told = self._aside(entry, str(error))
            os.ftruncate(self._own.mark, 0)
            return told
        if isinstance(found, Failed):
            return TakenFile(entry.name, FileFate.LEFT, f"can't be read: {found.said}")
        if isinstance(found, Unfit):
            return self._aside(entry, found.said, stays=True)
        return self._content(entry, found, now)

    def _content(self, entry: Entry, found: Content, now: float) -> _Ready | TakenFile:
        reading, age, digest = found.reading, now - found.modified, found.digest
        if reading.defects:
            said = "; ".join(str(defect) for defect in reading.defects)
            torn = any(defect.what.startswith("torn") for defect in reading.defects)
            left = torn and age < YOUNG_S
            return TakenFile(entry.name, FileFate.LEFT, said) if left else self._aside(entry, said)
        writer = "" if self._house is None or found.uid in self._house else user_name(found.uid)
        if reading.part is not None:
            return self._part(entry, digest, reading.part, writer, age, now)
        if writer:
            return self._aside(entry, f"written by {writer}: in a spool that others may write only pal measures")
        if reading.reduces is not None:
            return _Ready(entry, digest, store_reduces(reading.reduces, digest))
        assert reading.document is not None
        return self._judge(entry, digest, reading.document, now)

    def _part(
        self, entry: Entry, digest: str, part: JobPart, writer: str, age: float, now: float
    ) -> _Ready | TakenFile:
        starts = OutcomeRepo(self.store, self.cluster).of_job(int(part.job)) if digits(part.job) else []
        named = "" if part.user is None else user_name(part.user)
        try:
            found = believed(part, writer, named, starts, self._places, now)
        except NotYetKnown as error:
            young = abs(age) < UNKNOWN_S
            return TakenFile(entry.name, FileFate.LEFT, str(error)) if young else self._aside(entry, str(error))
        except BadInput as error:
            return self._aside(entry, str(error))
        samples = tuple(samples_of(found.part, digest, self.cluster, found.user, his_word=bool(writer)))
        return _Ready(entry, digest, samples=samples, left_out=found.refused, said=found.said)

    def _judge(self, entry: Entry, digest: str, document: Document, now: float) -> _Ready | TakenFile:
        try:
            made = store_document(document, digest, self.classes, frozenset(self._places))
        except BadInput as error:
            return self._aside(entry, str(error))
        return _Ready(entry, digest, made, alerts=tuple(alerts_of(document, now)))

    def _store(self, ready: Sequence[_Ready], now: float) -> Iterator[TakenFile]:
        """A batch in one transaction each for documents and samples; where that fails, file by file."""
        if not ready:
            return
        try:
            yield from self._write(ready, now)
        except (StoreError, *ROWS_OWN) as error:
            if len(ready) == 1:
                entry, said = ready[0].entry, printable(f"{type(error).__name__}: {error}", 300)
                own = isinstance(error, ROWS_OWN)  # it would be so the next time too
                yield self._aside(entry, said) if own else TakenFile(entry.name, FileFate.LEFT, str(error))
                return
            for one in ready:
                yield from self._store([one], now)

    def _write(self, ready: Sequence[_Ready], now: float) -> list[TakenFile]:
        documents = [r.document for r in ready if r.document is not None]
        if alerts := [alert for r in ready for alert in r.alerts]:
            NightRepo(self.store).alert(alerts)
        known = {d.digest: a.known_before for d, a in zip(documents, self._add(documents, now), strict=True)}
        samples = [sample for r in ready for sample in r.samples]
        if samples:
            SampleRepo(self.store).add(samples)
        told = []
        for r in ready:
            fate = FileFate.KNOWN if known.get(r.digest) else FileFate.TAKEN
            self._away(r.entry, self._own.taken, kept_name(r.entry.file))
            told.append(TakenFile(r.entry.name, fate, r.said, _runs([r]), len(r.samples), r.left_out))
        return told

    def _add(self, documents: Sequence[Delivery], now: float) -> list[Added]:
        return ScoreRepo(self.store).add_all(documents, now) if documents else []

    def _aside(self, entry: Entry, reason: str, stays: bool = False) -> TakenFile:
        """`stays`: what is no document at all is not moved, only never looked at again."""
        try:
            name = self._own.reason(entry.file, reason)
        except OSError as error:
            return TakenFile(entry.name, FileFate.LEFT, f"{reason}; and it can't be set aside: {error.strerror}")
        if stays:
            self._own.seen.add(entry.file)
        else:
            self._away(entry, self._own.aside, name)
        return TakenFile(entry.name, FileFate.SET_ASIDE, reason)

    def _away(self, entry: Entry, into: int, name: str) -> None:
        """Out of the spool; where that can't be, it is not looked at again."""
        if self._reader.move(entry, into, name):
            self._own.seen.add(entry.file)


def in_turn(entries: Sequence[Entry]) -> list[Entry]:
    """By name, and one file of each owner in turn: who leaves many holds up himself."""
    before: Counter[int] = Counter()
    keys = {}
    for entry in sorted(entries, key=lambda each: each.file.name):
        keys[entry.file] = before[entry.uid]
        before[entry.uid] += 1
    return sorted(entries, key=lambda each: (keys[each.file], each.file.name))


def house(spool: Listing) -> frozenset[int] | None:
    """Whose files are the house's own, where others may write into the spool; None: where nobody else may."""
    others = spool.mode & (stat.S_IWGRP | stat.S_IWOTH)
    return frozenset({0, os.geteuid(), spool.uid}) if others else None


def user_name(uid: int) -> str:
    """As Slurm's backends name users."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _runs(ready: Sequence[_Ready]) -> int:
    return sum(len(r.document.runs) for r in ready if r.document is not None)
