"""A spool directory, taken in. In: files that nodes put there. Out: rows in the store; per file what became of it.

    DIR/NAME             waits; a name with a leading dot is still being written
    DIR/taken/NAME       is in the store; removed after a week
    DIR/set-aside/NAME   can't be used; NAME.reason says why

A file is moved after the transaction that stored it. Killed in between, the next run finds it known and moves it:
nothing counts twice, nothing is there in half.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pal_slurm.errors import BadInput, PalError, StoreError
from pal_slurm.intake.believing import NotYetKnown, believed
from pal_slurm.intake.documents import KernelClasses, alerts_of, store_document, store_reduces
from pal_slurm.intake.samples import samples_of
from pal_slurm.probe import limits
from pal_slurm.probe.document import Document, JobPart
from pal_slurm.probe.reading import read
from pal_slurm.store import Added, Delivery, GpuRepo, OutcomeRepo, ScoreRepo, Store
from pal_slurm.store.nights import Alert, NightRepo
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.words import digits

TAKEN, SET_ASIDE, LOCK = "taken", "set-aside", ".ingest.lock"
KEEP_TAKEN_S = 7 * 86_400.0
UNKNOWN_S = 600.0  # so long pald may take to see a job start
YOUNG_S = 10.0  # a copy that is not atomic may still be growing
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
    path: Path
    digest: str
    document: Delivery | None = None
    samples: tuple[JobSample, ...] = ()
    alerts: tuple[Alert, ...] = ()
    left_out: int = 0
    said: str = ""


@dataclass
class Spool:
    """One directory and the store it is taken into."""

    directory: Path
    store: Store
    classes: KernelClasses
    cluster: str = ""
    _places: dict[str, tuple[str, int]] = field(default_factory=dict)
    _house: frozenset[int] | None = None  # whose files are the house's; None: everybody's who may write here

    def take(self, now: float) -> Iterator[TakenFile]:
        """Every file that waits, by name; told once what became of it is on disk."""
        with _alone(self.directory):
            self._places = {stay.uuid: (stay.node, stay.slot) for stay in GpuRepo(self.store).current()}
            self._house = house(self.directory)
            ready: list[_Ready] = []
            for path in waiting(self.directory):
                found = self._look(path, now)
                if isinstance(found, TakenFile):
                    yield found
                    continue
                ready.append(found)
                if len(ready) >= _BATCH_FILES or _runs(ready) >= _BATCH_RUNS:
                    yield from self._store(ready, now)
                    ready = []
            yield from self._store(ready, now)
            _forget(self.directory / TAKEN, now - KEEP_TAKEN_S)

    def _look(self, path: Path, now: float) -> _Ready | TakenFile:
        try:
            data, age, uid = _bytes(path, now)
        except BadInput as error:
            return self._aside(path, str(error))
        except OSError as error:
            return TakenFile(path.name, FileFate.LEFT, f"can't be read: {error.strerror}")
        digest = hashlib.sha256(data).hexdigest()
        reading = read(data, now)
        if reading.defects:
            said = "; ".join(str(defect) for defect in reading.defects)
            torn = any(defect.what.startswith("torn") for defect in reading.defects)
            return TakenFile(path.name, FileFate.LEFT, said) if torn and age < YOUNG_S else self._aside(path, said)
        writer = "" if self._house is None or uid in self._house else user_name(uid)
        if reading.part is not None:
            return self._part(path, digest, reading.part, writer, age, now)
        if writer:
            return self._aside(path, f"written by {writer}: in a spool that is open to everybody only pal measures")
        if reading.reduces is not None:
            return _Ready(path, digest, store_reduces(reading.reduces, digest))
        assert reading.document is not None
        return self._judge(path, digest, reading.document, now)

    def _part(self, path: Path, digest: str, part: JobPart, writer: str, age: float, now: float) -> _Ready | TakenFile:
        starts = OutcomeRepo(self.store, self.cluster).of_job(int(part.job)) if digits(part.job) else []
        named = "" if part.user is None else user_name(part.user)
        try:
            found = believed(part, writer, named, starts, self._places, now)
        except NotYetKnown as error:
            young = abs(age) < UNKNOWN_S
            return TakenFile(path.name, FileFate.LEFT, str(error)) if young else self._aside(path, str(error))
        except BadInput as error:
            return self._aside(path, str(error))
        samples = tuple(samples_of(found.part, digest, self.cluster, found.user))
        return _Ready(path, digest, samples=samples, left_out=found.refused, said=found.said)

    def _judge(self, path: Path, digest: str, document: Document, now: float) -> _Ready | TakenFile:
        try:
            made = store_document(document, digest, self.classes, frozenset(self._places))
        except BadInput as error:
            return self._aside(path, str(error))
        return _Ready(path, digest, made, alerts=tuple(alerts_of(document, now)))

    def _store(self, ready: Sequence[_Ready], now: float) -> Iterator[TakenFile]:
        """A batch in one transaction each for documents and samples; where that fails, file by file."""
        if not ready:
            return
        try:
            yield from self._write(ready, now)
        except StoreError as error:
            if len(ready) == 1:
                yield TakenFile(ready[0].path.name, FileFate.LEFT, str(error))
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
            _into(r.path, self.directory / TAKEN, r.path.name)
            told.append(TakenFile(r.path.name, fate, r.said, _runs([r]), len(r.samples), r.left_out))
        return told

    def _add(self, documents: Sequence[Delivery], now: float) -> list[Added]:
        return ScoreRepo(self.store).add_all(documents, now) if documents else []

    def _aside(self, path: Path, reason: str) -> TakenFile:
        try:
            name = _reason_file(path, self.directory / SET_ASIDE, reason)
        except OSError as error:
            return TakenFile(path.name, FileFate.LEFT, f"{reason}; and it can't be set aside: {error.strerror}")
        _into(path, self.directory / SET_ASIDE, name)
        return TakenFile(path.name, FileFate.SET_ASIDE, reason)


def waiting(directory: Path) -> list[Path]:
    """Everything in the spool that is not ours and not half-written, by name."""
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if not entry.name.startswith("."))
    except OSError as error:
        raise BadInput(f"the spool {directory} can't be read: {error.strerror}") from error
    return [directory / name for name in names if name not in (TAKEN, SET_ASIDE)]


def house(directory: Path) -> frozenset[int] | None:
    """Whose files are the house's own, where everybody may write into the spool; None: where not."""
    about = directory.stat()
    return frozenset({0, os.geteuid(), about.st_uid}) if about.st_mode & stat.S_IWOTH else None


def user_name(uid: int) -> str:
    """As Slurm's backends name users."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _bytes(path: Path, now: float) -> tuple[bytes, float, int]:
    """The content, its age and owner; only of a plain file, and only as much as a document may have."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise BadInput("a symbolic link, not a file") from error
        raise
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise BadInput("not a plain file")
        if about.st_size > limits.MOST_BYTES:
            raise BadInput(f"{about.st_size} bytes; a document has at most {limits.MOST_BYTES}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(limits.MOST_BYTES + 1), now - about.st_mtime, about.st_uid
    finally:
        os.close(handle)


def _reason_file(path: Path, folder: Path, reason: str) -> str:
    """Write why, before the file is moved; its name there, free of what can't be printed."""
    folder.mkdir(mode=0o750, exist_ok=True)
    plain = "".join(c if c.isprintable() and c != "/" else "?" for c in path.name)[:120]
    mark = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:8]
    name = f"{plain}.{mark}" if plain != path.name or (folder / plain).exists() else plain
    (folder / f"{name}.reason").write_text(f"{reason}\n", encoding="utf-8")
    return name


def _into(path: Path, folder: Path, name: str) -> None:
    """Move; a file that can't be moved is told again next time, which changes nothing."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o750, exist_ok=True)
        path.rename(folder / name)


def _forget(folder: Path, before: float) -> None:
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.stat(follow_symlinks=False).st_mtime < before:
                Path(entry.path).unlink()


def _runs(ready: Sequence[_Ready]) -> int:
    return sum(len(r.document.runs) for r in ready if r.document is not None)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One ingest per spool; the lock goes with the process."""
    try:
        handle = os.open(directory / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise BadInput(f"the spool {directory} can't be written: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise SpoolBusy(f"another program is taking in {directory}; it will take what is there") from error
    finally:
        os.close(handle)


class SpoolBusy(PalError):
    exit_code = 75
