"""One's own cluster: `sacct --parsable2` (or `--parsable`). In: its text. Out: what ran where, and a Workload.

    sacct -a -X -P -S now-30days \
        -o JobID,JobName,Submit,Start,End,AllocTRES,NodeList,Partition,User,Comment,Timelimit,ReqTRES,Constraints

Job steps, jobs without GPUs, and jobs that never started or are still running
are counted and left out. The measured run time stands for the work to be done; `gain` corrects it for the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pal_slurm.model import read_hint
from pal_slurm.sim.traces.jobs import limit
from pal_slurm.sim.traces.pal import MODELS
from pal_slurm.sim.traces.philly import seconds
from pal_slurm.sim.traces.reading import AppShelf, Options, Row, Table, register
from pal_slurm.sim.workload import Source, Work, Workload, workload

COLUMNS = ("JobID", "Submit", "Start", "End", "User")
GPU_COLUMNS = ("AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")  # the first that tells is believed
COMMAND = (
    "sacct -a -X -P -S now-30days -o "
    "JobID,JobName,Submit,Start,End,AllocTRES,NodeList,Partition,User,Comment,Timelimit,ReqTRES,Constraints"
)
_GPUS = re.compile(r"(?:^|,)(?:gres/)?gpu(?:=|:)([0-9]{1,9})")
_TYPED = re.compile(r"(?:^|,)(?:gres/)?gpu:[A-Za-z0-9_][\w.+-]*(?:=|:)([0-9]{1,9})")
_N = "([0-9]{1,9})"
_LIMIT = re.compile(f"(?:{_N}-)?{_N}:{_N}:{_N}|{_N}:{_N}|{_N}")
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


class Sacct:
    def sniff(self, header: str) -> bool:
        return set(COLUMNS) <= set(header.split("|"))

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
        source = Source(table.path, next(name for name in GPU_COLUMNS if name in table.columns("|", COLUMNS)))
        return workload(works, source).told(table.skipped, table.notes).from_zero()


def read_rows(table: Table) -> Iterator[Ran]:
    """Every finished job that held GPUs."""
    at = table.columns("|", COLUMNS)
    if not any(name in at for name in GPU_COLUMNS):
        raise table.missing("AllocTRES", f"without it nobody knows how many GPUs a job had; use `{COMMAND}`")
    return table.each(table.rows("|", at), _ran)


def _ran(row: Row) -> Ran | None:
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
    hint = read_hint(row.text("Comment") if row.has("Comment") else None)
    limit_s = _limit(row) if row.has("Timelimit") else None
    nodes = row.text("NodeList") if row.has("NodeList") else ""
    asked = ",".join(row.text(column) for column in ("ReqTRES", "Constraints") if row.has(column))
    title = row.text("JobName") if row.has("JobName") else ""
    return Ran(name, submit, start, end, gpus, nodes, row.text("User"), hint.app, limit_s, row.line, asked, title)


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
