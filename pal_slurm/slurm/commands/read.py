"""The queue as the command line tells it. In: squeue's fixed-width records. Out: JobRecords, and what was unreadable.

One squeue call reads the whole queue; on releases without an ExcNodes column (22.05) a second one reads that column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pal_slurm.slurm.commands.columns import COMMENTS, LATER, WIDE, Layout, QueueRow, Rows, layout
from pal_slurm.slurm.commands.details import Details
from pal_slurm.slurm.commands.queue import TooLong, Unread, to_record
from pal_slurm.slurm.commands.run import Commands, failure
from pal_slurm.slurm.records import JobRecord
from pal_slurm.words import printable

_FLAGS = ("-h", "-a", "-r")  # no header, hidden partitions too, each task of an array on its own line
MOST_WIDE = 2048  # records that are read again, wider
FEW = 8  # up to here jobs are asked for one by one: slurmctld then packs only these
MANY = 4000  # ids in one command line: 44 kB
# `squeue -o`, which every release has, can tell the excluded nodes: %A, %K and %x.
_EXCLUDED = Layout((("JobId", 12), ("ArrayTaskId", 24), ("ExcNodes", 514)))
_EXCLUDED_FORMAT = "%12A%24K%514x"
_WHICH = (("JobId", 12), ("ArrayTaskId", 24), ("SubmitTime", 13))
_GONE = ("Invalid job id specified",)


@dataclass(slots=True)
class Queue:
    records: list[JobRecord] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    too_long: list[str] = field(default_factory=list)


class QueueReader:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._details = Details(commands)
        self._columns: frozenset[str] | None = None

    def queue(self) -> Queue:
        """Every job that waits or holds resources."""
        return self._records(self._rows(()), whole_queue=True)

    def some(self, ids: Sequence[int]) -> Queue:
        """These jobs, also when they have ended, as long as slurmctld remembers them; an array by any of its ids."""
        found: dict[str, QueueRow] = {}
        few = ids if len(ids) <= FEW else [",".join(map(str, ids[i : i + MANY])) for i in range(0, len(ids), MANY)]
        for asked in few:
            found |= {row.texts["JobId"]: row for row in self._rows((f"-j{asked}", "-tall"))}
        return self._records(list(found.values()), whole_queue=False)

    def _records(self, found: Sequence[QueueRow], *, whole_queue: bool) -> Queue:
        queue = Queue()
        for row in self._widened(found):
            try:
                queue.records.append(to_record(row))
            except TooLong as error:
                queue.too_long.append(printable(str(error)))
            except Unread as error:
                queue.unread.append(printable(str(error)))
        self._details.fill(queue.records, whole_queue=whole_queue)
        return queue

    def _rows(self, options: Sequence[str]) -> list[QueueRow]:
        of = layout(self.columns())
        # The narrow call goes first: a job that only the wide one knows is new, and read whole by the next cycle.
        excluded = None if "ExcNodes" in self.columns() else self._excluded(options)
        found = self._ask(("-O", of.option), options, of)
        if excluded is None:
            return found
        known = [row for row in found if row.texts["JobId"] in excluded]
        for row in known:
            nodes = excluded[row.texts["JobId"]]
            row.texts["ExcNodes"] = nodes.texts.get("ExcNodes", "")
            row.cut += nodes.cut
        return known

    def _excluded(self, options: Sequence[str]) -> dict[str, QueueRow]:
        found = self._ask(("-o", _EXCLUDED_FORMAT), options, _EXCLUDED)
        return {row.texts["JobId"]: row for row in found}

    def _ask(self, columns: Sequence[str], options: Sequence[str], of: Layout) -> list[QueueRow]:
        found = Rows(of)
        answer = self._commands.ask("squeue", (*_FLAGS, *columns, *options), sink=found.feed)
        if answer.code == 0:
            return found.done()
        if any(gone in printable(answer.err) for gone in _GONE):
            return []
        raise failure("squeue", answer)

    def _widened(self, found: Sequence[QueueRow]) -> list[QueueRow]:
        """Rows with every text whole: the columns that squeue cut are read again, wider, for the jobs concerned."""
        cut = [row for row in found if row.cut]
        again: dict[str, QueueRow] = {}
        names = {name for row in cut for name in row.cut} - (LATER - self.columns())
        if names:
            wide = Layout((*_WHICH, *((name, WIDE) for name in sorted(names))))
            jobs = ",".join(row.texts["JobId"] for row in cut[:MOST_WIDE])
            found_again = self._ask(("-O", wide.option), (f"-j{jobs}", "-tall"), wide)
            again = {row.texts["JobId"]: row for row in found_again}
        for row in cut:
            _widen(row, again.get(row.texts["JobId"]))
        return list(found)

    def columns(self) -> frozenset[str]:
        """What this squeue can print, by the names of its -O option; nothing on releases that do not list it."""
        if self._columns is None:
            answer = self._commands.ask("squeue", ("--helpFormat",))
            self._columns = (
                frozenset(answer.out.decode("ascii", "replace").split()) if answer.code == 0 else frozenset()
            )
        return self._columns


def _widen(row: QueueRow, wide: QueueRow | None) -> None:
    """Puts the whole texts where cut ones stood. What is longer still stays cut, but for comments."""
    if wide is not None and wide.get("SubmitTime") == row.get("SubmitTime"):
        row.texts |= {name: wide.texts[name] for name in row.cut if name in wide.texts}
        row.cut = tuple(name for name in row.cut if name not in wide.texts or name in wide.cut)
    # A comment longer than any hint is none. Its job is read all the same.
    for name in COMMENTS.intersection(row.cut):
        row.texts[name] = "\xff" if name == "Comment" else ""
    row.cut = tuple(name for name in row.cut if name not in COMMENTS)
