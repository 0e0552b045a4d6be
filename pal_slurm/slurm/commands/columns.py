"""The columns of squeue, at fixed places. In: squeue's bytes. Out: rows of texts, one per record.

Each record is exactly as many bytes long as its columns are wide, plus one newline. Users' texts may hold newlines,
separators or a whole fake record: they stay inside their own bytes, so no text can shift or forge another record.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.words import digits

# What squeue prints, and how wide; a value that fills its width may have been cut and is read again, wider.
WIDTHS: Mapping[str, int] = {
    "JobId": 12,
    "ArrayJobId": 12,
    "ArrayTaskId": 24,
    "State": 16,
    "UserName": 34,
    "Partition": 66,
    "PriorityLong": 22,
    "Reason": 66,
    "EligibleTime": 13,
    "StartTime": 13,
    "EndTime": 13,
    "SubmitTime": 13,
    "Deadline": 13,
    "TimeLimit": 18,
    "MinTime": 18,
    "NumNodes": 10,
    "MaxNodes": 10,
    "NumTasks": 10,
    "cpus-per-task": 10,
    "MinCPUs": 10,
    "NumCPUs": 12,
    "NTPerNode": 10,
    "MinMemory": 18,
    "tres-alloc": 130,
    "tres-per-node": 66,
    "tres-per-job": 66,
    "tres-per-task": 66,
    "tres-per-socket": 66,
    "cpus-per-tres": 34,
    "mem-per-tres": 34,
    "ReqNodes": 66,
    "ExcNodes": 66,
    "Feature": 66,
    "Prefer": 66,
    "OverSubscribe": 12,
    "Exclusive": 12,
    "HetJobId": 12,
    "Requeue": 4,
    "RestartCnt": 8,
    "Nice": 14,
    "BatchFlag": 4,
    "SchedNodes": 66,
    "NodeList": 130,
    "Account": 66,
    "QOS": 66,
    "Reservation": 66,
    "Dependency": 66,
    "Name": 66,  # of job and script: only held against patterns, so never read again where they are longer
    "Command": 258,
    "Comment": 1026,  # Slurm takes 1,024 bytes: never cut, so that no word after a blank is ever lost
    "admin_comment": 258,  # a lease mark is its first word; what follows is not ours
}
LATER = frozenset({"ExcNodes", "Exclusive"})  # not in every release: `squeue --helpFormat` tells
COMMENTS = frozenset({"Comment", "admin_comment"})
NAMES = frozenset({"Name", "Command"})
WIDE = 8200  # more than any hint may be long
_PLAIN = bytes(range(0x20, 0x7F))
_NULL = frozenset({"(null)", "N/A", "NONE", "None", "Unknown", "n/a"})
_NOTHING = frozenset(word.encode("ascii") for word in _NULL)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns are asked for, how wide, and where each stands in a record."""

    columns: tuple[tuple[str, int], ...]
    places: tuple[tuple[str, int, int], ...] = field(init=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        places, at = [], 0
        for name, width in self.columns:
            places.append((name, at, at + width))
            at += width
        object.__setattr__(self, "places", tuple(places))
        object.__setattr__(self, "length", at + 1)

    @property
    def option(self) -> str:
        """What `squeue -O` takes."""
        return ",".join(f"{name}:{width}" for name, width in self.columns)


@dataclass(slots=True)
class QueueRow:
    """One record: its texts (each character one byte) as far as they say something, and which of them were cut."""

    texts: dict[str, str]
    plain: bool = False  # known to hold nothing that could upset a terminal
    cut: tuple[str, ...] = ()
    tasks: list[str] = field(default_factory=list)

    def get(self, name: str) -> str:
        """A text of Slurm's own; one that says "nothing" is empty, and nothing in it can upset a terminal."""
        text = self.texts.get(name, "")
        if text in _NULL:
            return ""
        return text if self.plain or (text.isprintable() and text.isascii()) else "".join(map(_plain, text))

    def raw(self, name: str) -> bytes:
        text = self.texts.get(name, "")
        return b"" if text in _NULL else text.encode("latin-1")


def layout(available: frozenset[str]) -> Layout:
    """Every column that this squeue has."""
    return Layout(tuple((name, width) for name, width in WIDTHS.items() if name not in LATER or name in available))


class Rows:
    """Takes in an answer as it comes: of a long queue neither the answer nor its blanks are ever held whole.

    The tasks of an array that share a record are one row.
    """

    def __init__(self, of: Layout) -> None:
        if of.columns[0][0] != "JobId":
            raise ValueError("JobId is the first column")
        self._of = of
        self._names = tuple(name for name, _ in of.columns)
        self._record = struct.Struct("".join(f"{width}s" for _, width in of.columns) + "c")
        self._rows: dict[bytes, QueueRow] = {}
        self._known: dict[bytes, str] = {}  # most texts stand in many records
        self._rest, self._taken, self._askew = b"", 0, ""

    def feed(self, chunk: bytes) -> None:
        """What is wrong with it is told at the end: the command may have a better reason."""
        self._taken += len(chunk)
        data = self._rest + chunk
        whole = len(data) - len(data) % self._of.length
        self._rest = data[whole:]
        if whole and not self._askew:
            self._take(data[:whole])

    def done(self) -> list[QueueRow]:
        if self._rest:
            raise SlurmUnavailable(
                f"squeue's answer is {self._taken} bytes long, no multiple of a record's {self._of.length}: "
                "nothing was used"
            )
        if self._askew:
            raise SlurmUnavailable(self._askew)
        return list(self._rows.values())

    def _take(self, data: bytes) -> None:
        length, before = self._of.length, self._taken - len(self._rest) - len(data)
        plain = len(data.translate(None, _PLAIN)) * length == len(data)  # newlines between records are all that is left
        task = self._names.index("ArrayTaskId")
        for number, found in enumerate(self._record.iter_unpack(data)):
            job = found[0].rstrip(b" ")
            if found[-1] != b"\n" or not digits(job.decode("latin-1")):
                self._askew = f"squeue's record {before // length + number} stands askew: nothing was used"
                return
            row = self._rows.get(job)
            if row is None:
                row = self._rows[job] = self._row(found, plain)
            row.tasks.append(self._text(found[task].rstrip(b" ")))

    def _row(self, found: Sequence[bytes], plain: bool) -> QueueRow:
        texts, cut = {}, []
        for name, field_ in zip(self._names, found, strict=False):
            text = field_.rstrip(b" ")
            if len(text) == len(field_) and name not in NAMES:
                cut.append(name)
            if text and text not in _NOTHING:
                texts[name] = self._text(text)
        return QueueRow(texts, plain, tuple(cut))

    def _text(self, text: bytes) -> str:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = text.decode("latin-1")
        return known


def rows(out: bytes, of: Layout) -> list[QueueRow]:
    """The records of one answer."""
    found = Rows(of)
    found.feed(out)
    return found.done()


def _plain(char: str) -> str:
    return char if char.isprintable() and char.isascii() else "?"
