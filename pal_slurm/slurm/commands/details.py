"""What squeue can't tell: devices, %limits of arrays, lists as they were written. In: job records. Out: filled in.

`scontrol show job -d` holds users' texts, so it is believed only where they can't lie for others: each job is asked
for by its id and framed, and its lines must name exactly its own nodes once. What does not fit is left unknown.
Answers are remembered, so that a cycle asks only for jobs that started since the last one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from pal_slurm.slurm import devices, gres
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.nodeset import unfold
from pal_slurm.slurm.records import HOLDS_RESOURCES, JobRecord

MOST_SINGLE = 256  # more new jobs than these are asked for in one answer
LIMIT_AGE_S = 600.0  # an array's %limit may be changed by hand
_GROUP = re.compile(rb" Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S*)")
_LIMIT = re.compile(rb"JobId=\d+ ArrayJobId=\d+ ArrayTaskId=\S+ (?:ArrayTaskThrottle=(\d+) )?")
_EXCLUDED = re.compile(rb" ExcNodeList=(\S+)")
_ID = re.compile(rb"JobId=(\d+) ")

Run = tuple[int, int, int, int]  # id, submit, restarts, start: one run of one job


class Details:
    """Remembers what was learned of jobs until they leave the queue."""

    def __init__(self, commands: Commands, clock: Callable[[], float] = time.monotonic) -> None:
        self._commands = commands
        self._clock = clock
        self._devices: dict[Run, list[str]] = {}
        self._limits: dict[int, tuple[float, int | None]] = {}
        self._excluded: dict[tuple[int, int, str], str] = {}  # by id, submit time and squeue's way of writing it

    def fill(self, records: Iterable[JobRecord], *, whole_queue: bool) -> None:
        """Adds devices, array limits and excluded nodes to the records that need them."""
        running = {_run(r): r for r in records if r.state in HOLDS_RESOURCES and r.nodes and _holds_any(r)}
        arrays = [r for r in records if r.array_id is not None and r.state == "PENDING"]
        now = self._clock()
        new = [r for run, r in running.items() if run not in self._devices]
        heads = (r for r in arrays if r.id == r.array_id)  # a task that was split off does not tell the limit
        stale = {r.array_id: r for r in heads if self._limits.get(r.array_id or 0, (-1e9, 0))[0] < now - LIMIT_AGE_S}
        known = self._excluded if whole_queue else {}  # before and after an edit squeue may write the same
        lists = {_list_of(r): r for r in records if r.excluded_nodes and _may_be_ours(r)}
        self._learn(new, list(stale.values()), [r for key, r in lists.items() if key not in known], now)
        for of, record in lists.items():
            record.excluded_nodes = self._excluded.get(of, record.excluded_nodes)
        for run, record in running.items():
            record.gres_detail = self._devices.get(run, [])
        for record in arrays:
            record.array_limit = self._limits.get(record.array_id or 0, (0.0, None))[1]
        if whole_queue:
            self._devices = {run: found for run, found in self._devices.items() if run in running}
            self._excluded = {of: text for of, text in self._excluded.items() if of in lists}
            waiting = {record.array_id for record in arrays}
            self._limits = {array: found for array, found in self._limits.items() if array in waiting}

    def _learn(self, running: list[JobRecord], arrays: list[JobRecord], excluding: list[JobRecord], now: float) -> None:
        wanted = {r.id: r for r in (*running, *arrays, *excluding)}
        if not wanted:
            return
        for job, line in self._lines(list(wanted)).items():
            record = wanted[job]
            if record.array_id is not None and record.state == "PENDING":
                limit = _LIMIT.match(line)
                self._limits[record.array_id] = (now, int(limit[1]) if limit and limit[1] else None)
            elif record.state == "PENDING":
                self._excluded[_list_of(record)] = excluded_of(line, record)
            else:
                self._devices[_run(record)] = devices_of(line, record)

    def _lines(self, ids: list[int]) -> dict[int, bytes]:
        """One line per job; a job whose line can't be told from a forged one has none."""
        found: dict[int, bytes] = {}
        if len(ids) > MOST_SINGLE:
            (answer,) = self._commands.show(["show job"])
            found = sole_lines(answer, frozenset(ids))
            ids = [job for job in ids if job not in found][:MOST_SINGLE]
        for job, answer in zip(ids, self._commands.show([f"show job {job}" for job in ids]), strict=True):
            found |= sole_lines(answer, frozenset({job}))
        return found


def _run(record: JobRecord) -> Run:
    return record.id, record.submit, record.restarts, record.start or 0


def _asks_gpus(record: JobRecord) -> bool:
    return any(map(gres.count_of, _texts(record)))


def _holds_any(record: JobRecord) -> bool:
    """GPUs, or parts of some."""
    return _asks_gpus(record) or any(item.n for text in _texts(record) for item in gres.items_in(text, devices.SHARED))


def _texts(record: JobRecord) -> tuple[str, str, str, str]:
    return record.per_node, record.per_job, record.per_task, record.per_socket


def _list_of(record: JobRecord) -> tuple[int, int, str]:
    return record.id, record.submit, record.excluded_nodes


def _may_be_ours(record: JobRecord) -> bool:
    return record.state == "PENDING" and record.array_id is None and _asks_gpus(record)


def excluded_of(line: bytes, record: JobRecord) -> str:
    """As it was written; as squeue tells it where the line could be a lie, or is of another moment."""
    found = [text.decode("ascii", "replace") for text in _EXCLUDED.findall(line)]
    same = len(found) == 1 and set(unfold(found[0])) == set(unfold(record.excluded_nodes))
    return found[0] if same else record.excluded_nodes


def sole_lines(answer: bytes, ids: frozenset[int]) -> dict[int, bytes]:
    """Lines that begin with one of these ids, where no other line claims the same."""
    lines: dict[int, bytes] = {}
    doubled = set()
    for line in answer.split(b"\n"):
        match = _ID.match(line)
        if match and int(match[1]) in ids:
            job = int(match[1])
            if job in lines:
                doubled.add(job)
            lines[job] = line
    return {job: line for job, line in lines.items() if job not in doubled}


def devices_of(line: bytes, record: JobRecord) -> list[str]:
    """One GRES text per node in the order of the job's node list; nothing unless each node is named exactly once."""
    texts: dict[str, str] = {}
    for nodes, text in _GROUP.findall(line):
        for name in unfold(nodes.decode("ascii", "replace")):
            if name in texts:
                return []
            texts[name] = text.decode("ascii", "replace")
    names = unfold(record.nodes)
    return [texts[name] for name in names] if set(names) == set(texts) else []
