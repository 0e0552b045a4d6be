"""The columns of squeue, at fixed places. In: squeue's bytes. Out: rows of texts, one per record.

Each record is exactly as many bytes long as its columns are wide, plus one newline. Users' texts may hold newlines,
separators or a whole fake record: they stay inside their own bytes, so no text can shift or forge another record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    "TimeLimit": 18,
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
    """One record: its texts (each character one byte), and which of them were cut."""

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


def rows(out: bytes, of: Layout) -> list[QueueRow]:
    """The records of one answer; the tasks of an array that share a record are one row."""
    return list(_rows(out, of))


def _rows(out: bytes, of: Layout) -> Iterator[QueueRow]:
    if len(out) % of.length:
        raise SlurmUnavailable(
            f"squeue's answer is {len(out)} bytes long, no multiple of a record's {of.length}: nothing was used"
        )
    seen: dict[str, QueueRow] = {}
    text = out.decode("latin-1")
    id_name, id_start, id_end = of.places[0]
    task_start, task_end = next((start, end) for name, start, end in of.places if name == "ArrayTaskId")
    if id_name != "JobId":
        raise ValueError("JobId is the first column")
    all_plain = len(out.translate(None, _PLAIN)) * of.length == len(
        out
    )  # newlines between records are all that is left
    for start in range(0, len(out), of.length):
        record = text[start : start + of.length]
        job = record[id_start:id_end].rstrip(" ")
        if record[-1] != "\n" or not digits(job):
            raise SlurmUnavailable(f"squeue's record {start // of.length} stands askew: nothing was used")
        row = seen.get(job)
        if row is None:
            row = seen[job] = _row(record, of.places, all_plain)
            yield row
        row.tasks.append(record[task_start:task_end].rstrip(" "))


def _row(record: str, places: Sequence[tuple[str, int, int]], plain: bool) -> QueueRow:
    texts = {name: record[start:end].rstrip(" ") for name, start, end in places}
    return QueueRow(
        texts, plain, tuple(name for name, _, end in places if record[end - 1] != " " and name not in NAMES)
    )


def _plain(char: str) -> str:
    return char if char.isprintable() and char.isascii() else "?"
