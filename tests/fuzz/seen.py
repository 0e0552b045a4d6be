"""The simulated Slurm, overheard. In: what it does. Out: events of the history, none of them by way of pald."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pal_slurm.model import Job, Snapshot
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.sim.slurm.machine import Part as SimPart
from pal_slurm.sim.slurm.machine import bits
from pal_slurm.slurm.edits.prepare import Ready
from tests.fuzz import history
from tests.fuzz.history import (
    Ended,
    Event,
    Lead,
    NodeSet,
    Part,
    Record,
    Requeued,
    Row,
    Signalled,
    Started,
    Stopped,
    Updated,
)

Target = tuple[int, str, tuple[int, ...]]  # of a mover: job, node, slots

START = 1_800_000_000.0
_GRES = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")


@dataclass
class Overheard:
    """The events so far, and which line of the script each job number is."""

    events: list[Event] = field(default_factory=list)
    lines: dict[int, int] = field(default_factory=dict)

    def record(self, job: SimJob) -> Record:
        r = job.record
        line = self.lines.get(r.array_id or r.id, -1)
        tasks = tuple(job.job().array_tasks) if r.array_tasks else ()
        return Record(
            job=(line, tasks[0] if len(tasks) == 1 else r.array_task), number=r.id, state=r.state,
            begin=job.begin - START, held=job.held, waits=bool(job.waits_for), tasks=tasks,
            marked=r.admin_comment.startswith("pal1{"), required=r.required_nodes, excluded=r.excluded_nodes,
            features=r.features, partition=r.partition, least=r.num_nodes or 1, most=r.max_nodes or 0,
            per_node=r.per_node, per_job=r.per_job, per_task=r.per_task, per_socket=r.per_socket,
            ntasks=r.ntasks or 1, cpus=r.cpus or 1, limit=r.time_limit_min, comment=r.comment,
            reservation=r.reservation, restarts=r.restarts, submit=r.submit - START, nice=r.nice or 0,
            priority=r.priority or 0,
        )  # fmt: skip


class SeenController(Controller):
    """slurmctld, whose starts and ends are written down."""

    heard: Overheard
    by: str = ""  # who asks just now

    def start(self, job: SimJob, parts: tuple[SimPart, ...], partition: str) -> None:
        waited = self.heard.record(job)
        super().start(job, parts, partition)
        got = tuple(
            Part(self.nodes[p.row].name, frozenset(bits(p.slots)), p.cpus, frozenset(bits(p.shards))) for p in parts
        )
        self.heard.events.append(Started(self.now - START, waited, got))

    def _gone(self, job: SimJob, state: str) -> None:
        record, ran = self.heard.record(job), job.record.id in self.running
        super()._gone(job, state)
        self.heard.events.append(Ended(self.now - START, record.job, state, ran, record.nice))

    def requeue(self, number: int) -> None:
        if not self.running[number].back:
            self.heard.events.append(Stopped(self.now - START, self.heard.record(self.running[number]).job, self.by))
        super().requeue(number)

    def signal(self, number: int, name: str, *, to_script: bool) -> None:
        job = self.running.get(number)
        if job is not None and job.running and not job.back:
            self.heard.events.append(Signalled(self.now - START, self.heard.record(job).job, name))
        super().signal(number, name, to_script=to_script)

    def _requeued(self, job: SimJob, run: int) -> None:
        runs = job.record.id in self.running
        super()._requeued(job, run)
        if runs and job.record.id in self.pending:
            record = self.heard.record(job)
            self.heard.events.append(Requeued(self.now - START, record.job, record))

    def set_node(self, name: str, state: str) -> None:
        self.heard.events.append(NodeSet(self.now - START, name, state))
        super().set_node(name, state)


class Disk:
    """The database as anybody else sees it: what is committed, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None

    def newest(self, job: int, task: int | None) -> Row | None:
        """The last step that was written for this job."""
        said = self._ask(
            "SELECT s.id, s.kind, s.nodes, s.until, s.fence, s.outcome FROM steps s JOIN operations o "
            "ON s.operation = o.id WHERE o.job = ? AND o.task IS ? ORDER BY s.id DESC LIMIT 1",
            job, task,
        )  # fmt: skip
        for number, kind, nodes, until, fence, outcome in said:
            end = None if until is None else until - START
            return Row(number, kind, tuple(json.loads(nodes)) if nodes else (), end, fence, outcome)
        return None

    def lead(self) -> Lead | None:
        for owner, fence in self._ask("SELECT owner, fence FROM leader LIMIT 1"):
            return Lead(Path(str(owner).rsplit(":", 1)[0]).stem, fence)
        return None

    def targets(self) -> set[Target]:
        """Of movers on their way: job, node, slots."""
        found: set[Target] = set()
        for job, text in self._ask("SELECT job, move FROM moves WHERE ended_at IS NULL"):
            move = json.loads(text)
            if (target := move.get("target")) and not move.get("handed"):
                found |= {(job, *at) for at in zip(target["nodes"], map(tuple, target["gpus"]), strict=True)}
        return found

    def ledger(self) -> list[history.Step]:
        return [
            history.Step(
                number, job, task, kind, tuple(json.loads(nodes)) if nodes else (), outcome, bool(closed), *rest
            )
            for number, job, task, kind, nodes, outcome, closed, *rest in self._ask(
                "SELECT s.id, o.job, o.task, s.kind, s.nodes, s.outcome, o.closed, s.said, s.fence FROM steps s "
                "JOIN operations o ON s.operation = o.id ORDER BY s.id"
            )
        ]

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        if self._db is None:
            if not self.path.exists():
                return []
            self._db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, isolation_level=None)
        return list(self._db.execute(query, values))


@dataclass
class Looks:
    """What one pald's edits rest on, in seconds since the beginning."""

    asked: float = 0.0
    content: float = 0.0
    content_n: int = 0  # events by then
    read_again: dict[int, tuple[float, int]] = field(default_factory=dict)


class SeenSlurm(SimSlurm):
    """The port of one pald; each update is written down with what stood before and after it, and with the ledger."""

    keeps_at_once = 3  # so that renewals follow one another in several calls

    pald: str
    life: int
    heard: Overheard
    disk: Disk
    looks: Looks
    fate: str = ""
    ahead: float = 0.0  # of slurmctld's clock: real backends tell the time of their own host

    def now(self) -> float:
        return super().now() + self.ahead

    def records(self, ids: object) -> list[Job]:
        wanted = list(ids)  # type: ignore[call-overload]
        for number in wanted:
            self.looks.read_again[number] = (self.controller.now - START, len(self.heard.events))
        return super().records(wanted)

    def snapshot(self) -> Snapshot:
        self.looks.asked = self.controller.now - START
        found = super().snapshot()
        return replace(found, taken=found.taken + self.ahead) if self.ahead else found

    def _ask(self, verb: str, jobs: int) -> None:
        before = self._rpc_s
        super()._ask(verb, jobs)
        if (took := self._rpc_s - before) and self.pald != "admin":
            now = self.controller.now - START
            self.heard.events.append(history.Asked(now, self.pald, self.life, verb, took))

    def _send(self, item: Ready) -> str:
        number = item.before.array_id or item.before.id
        task = item.edit.task if item.edit.task is not None else None
        row = self.disk.newest(item.edit.job, task)
        before = tuple(self._family(number))
        self.fate, self.controller.by = "WHOLE", self.pald  # type: ignore[attr-defined]
        sent = self.controller.now - START
        try:
            said = super()._send(item)
        finally:
            self.controller.by = ""  # type: ignore[attr-defined]
        texts = item.asked.texts
        looked, looked_n = max(self.looks.read_again.get(n, (-1.0, 0)) for n in (item.edit.job, number, item.before.id))
        self.heard.events.append(
            Updated(
                at=self.controller.now - START, pald=self.pald, life=self.life, target=item.target,
                nodes=texts.get("nodes"), gres={name: texts[name] for name in _GRES if name in texts},
                partition=texts.get("partition"), begin=item.asked.begin - START if item.asked.begin else None,
                fate=self.fate, said=said, before=before, after=tuple(self._family(number)), row=row,
                lead=self.disk.lead(), asked=self.looks.asked, content=self.looks.content, looked=looked,
                content_n=self.looks.content_n, looked_n=looked_n, sent=sent,
                requeue=item.asked.requeue, signal=item.asked.signal,
            )
        )  # fmt: skip
        return said

    def _family(self, number: int) -> Iterator[Record]:
        return (self.heard.record(job) for job in self.controller.family(number))
