"""One's own cluster: `sacct --parsable2` (or `--parsable`). In: its text. Out: what ran where, and a Workload.

    sacct -a -X -P --delimiter=US -S now-30days -o FIELDS    # `SHOWN`, below

Fields are separated by US, the unit separator, or by `|` as without --delimiter; users choose names and comments, so
these stand last. A name with a line break is several lines of the file, and one row here.

Job steps, jobs without GPUs, and jobs that never started or are still running are counted and left out; a row that
can't be read is left out too, with a note that names its line. The measured run time stands for the work to be done;
`gain` corrects it for the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pal_slurm.model import NO_HINT, Hint, read_hint
from pal_slurm.sim.traces.jobs import limit
from pal_slurm.sim.traces.pal import MODELS
from pal_slurm.sim.traces.philly import seconds
from pal_slurm.sim.traces.reading import AppShelf, Options, Row, Table, register
from pal_slurm.sim.workload import Source, Work, Workload, workload

COLUMNS = ("JobID", "Submit", "Start", "End", "User")
GPU_COLUMNS = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")  # the first that tells is believed
MOST_GPUS = 1_000_000
SEPARATOR = "\x1f"
_OPTIONS = (
    "-S now-30days -o JobID,Submit,Start,End,State,AllocTRES,NodeList,Partition,User,QOS,Timelimit,ReqTRES,Constraints,"
    "Comment,JobName"
)
COMMAND = f"sacct -a -X -P --delimiter={SEPARATOR} {_OPTIONS}"  # its words, by blanks
SHOWN = f"sacct -a -X -P --delimiter=\"$(printf '\\037')\" {_OPTIONS}"  # the same for a shell
FREE_TEXT = ("Comment", "JobName", "WorkDir", "AdminComment")  # may hold line breaks and separators
_JOB_ID = re.compile(r"[0-9]+(?:_(?:[0-9]+|\[[^\]]*\]))?(?:\+[0-9]+)?(?:\.[\w+-]+)?")
_GPUS = re.compile(r"(?:^|,)(?:gres/)?gpu(?:=|:)([0-9]{1,9})")
_TYPED = re.compile(r"(?:^|,)(?:gres/)?gpu:[A-Za-z0-9_][\w.+-]*(?:=|:)([0-9]{1,9})")
_N = "([0-9]{1,9})"
_LIMIT = re.compile(f"(?:{_N}-)?{_N}:{_N}:{_N}|{_N}:{_N}|{_N}")
_TOLD = ("NodeList", "Comment", "JobName", "QOS", "Partition", "State")
NOT_YET = frozenset({"", "Unknown", "None", "N/A"})


@dataclass(frozen=True, slots=True)
class Ran:
    """One finished GPU job as accounting has it."""

    name: str  # JobID, 123 or 123_4
    submit: float
    start: float
    end: float
    gpus: int
    node_list: str
    user: str
    app: str | None
    limit_s: float | None
    line: int
    asked: str = ""  # for GPUs, and node features, where accounting tells
    title: str = ""  # JobName
    hint: Hint = NO_HINT  # of its comment
    qos: str = ""
    partition: str = ""
    whole: bool = True  # it ended by itself, and well, as far as accounting tells


class Sacct:
    def sniff(self, header: str) -> bool:
        return set(COLUMNS) <= set(header.split(_separator(header)))

    def read(self, table: Table, options: Options) -> Workload:
        shelf = AppShelf(options.comm)
        works = []
        for i, ran in enumerate(read_rows(table)):
            name = ran.app or "?"
            cls = MODELS[name.lower()][1] if name.lower() in MODELS else options.default_class
            run_s = ran.end - ran.start
            limit_s = ran.limit_s or limit(options, run_s)
            app = shelf.get(name, cls, 1.0)
            works.append(Work(i + 1, ran.submit, ran.gpus, run_s, app, limit_s, ran.user, line=ran.line))
        at = table.columns(_separator(table.header()), COLUMNS)
        source = Source(table.path, next(name for name in GPU_COLUMNS if name in at))
        return workload(works, source).told(table.skipped, table.notes).from_zero()


def read_rows(table: Table) -> Iterator[Ran]:
    """Every finished job that held GPUs; rows that can't be read are skipped with a note."""
    separator = _separator(table.header())
    at = table.columns(separator, COLUMNS)
    if not any(name in at for name in GPU_COLUMNS):
        raise table.missing("AllocTRES", f"without it nobody knows how many GPUs a job had; use `{SHOWN}`")
    return table.each(_whole(table.rows(separator, at), at, separator), _ran, odd_is_skipped=True)


def _separator(header: str) -> str:
    return SEPARATOR if SEPARATOR in header else "|"


def _whole(rows: Iterator[Row], at: Mapping[str, int], separator: str) -> Iterator[Row]:
    """Rows of as many lines as they have: a line break in a name or a comment ends a line, and not its row."""
    fixed = len(at) - sum(name in at for name in FREE_TEXT)  # a row that is cut off in a comment has these at least
    free_end = list(at)[-1] in FREE_TEXT
    first: Row | None = None
    for row in rows:
        named = len(row.fields) > at["JobID"] + 1 and _JOB_ID.fullmatch(row.fields[at["JobID"]].strip()) is not None
        begins = named and len(row.fields) >= fixed
        if first is not None and not begins and (len(first.fields) < len(at) or (free_end and not named)):
            first.fields[-1:] = [f"{first.fields[-1]}\n{row.fields[0]}", *row.fields[1:]]
            continue
        if first is not None:
            yield _fitted(first, at, separator)
        first = row if begins else None
        if first is None:
            yield row  # is told as one that can't be read
    if first is not None:
        yield _fitted(first, at, separator)


def _fitted(row: Row, at: Mapping[str, int], separator: str) -> Row:
    """What is too much belongs to a name that has the separator in it, where a name is the last field."""
    columns = max(at.values()) + 1
    if len(row.fields) > columns and list(at)[-1] in FREE_TEXT:
        row.fields[columns - 1 :] = [separator.join(row.fields[columns - 1 :])]
    return row


def _ran(row: Row) -> Ran | None:
    row.full(f"a name or a comment has a `|` or a line break in it? Ask anew: {SHOWN}")
    name = row.text("JobID")
    if "." in name:  # a step
        return None
    times = {column: row.text(column) for column in ("Submit", "Start", "End")}
    if times["Start"] in NOT_YET or times["End"] in NOT_YET:
        return None
    gpus = _gpus(row)
    submit, start, end = (seconds(row, column) for column in ("Submit", "Start", "End"))
    if row.has("Eligible") and row.text("Eligible") not in NOT_YET:
        submit = max(submit, seconds(row, "Eligible"))  # a dependency's wait is nobody's queueing
    if start < submit:
        raise row.error("Start", f"{times['Start']} is before Submit {times['Submit']}")
    if end < start:
        raise row.error("End", f"{times['End']} is before Start {times['Start']}")
    if gpus == 0 or end == start:
        return None
    if gpus > MOST_GPUS:
        raise row.error(next(name for name in GPU_COLUMNS if row.has(name)), f"{gpus} GPUs; no job has that many")
    told = {name: row.text(name) if row.has(name) else "" for name in _TOLD}
    hint = read_hint(told["Comment"] or None)
    return Ran(
        name, submit, start, end, gpus, told["NodeList"], row.text("User"), hint.app,
        _limit(row) if row.has("Timelimit") else None, row.line,
        asked=",".join(row.text(column) for column in ("ReqTRES", "Constraints") if row.has(column)),
        title=told["JobName"], hint=hint, qos=told["QOS"], partition=told["Partition"],
        whole=told["State"] in ("", "COMPLETED"),
    )  # fmt: skip


def _gpus(row: Row) -> int:
    for column in GPU_COLUMNS:
        if row.has(column) and row.text(column):
            untyped = _GPUS.search(row.text(column))
            if untyped:
                return int(untyped[1])
            return sum(map(int, _TYPED.findall(row.text(column))))
    return 0


def _limit(row: Row) -> float | None:
    raw = row.text("Timelimit")
    if raw in NOT_YET or raw in ("UNLIMITED", "Partition_Limit"):
        return None
    match = _LIMIT.fullmatch(raw)
    if match is None:
        raise row.error("Timelimit", f"{raw[:40]!r} is not a time limit")
    days, hours, minutes, secs, m2, s2, alone = match.groups()
    if alone is not None:
        return 60.0 * int(alone)
    if m2 is not None:
        return 60.0 * int(m2) + int(s2)
    return 86400.0 * int(days or 0) + 3600.0 * int(hours) + 60.0 * int(minutes) + int(secs)


register("sacct", Sacct())
