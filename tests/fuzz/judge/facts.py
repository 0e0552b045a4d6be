"""What the rules ask of a history. In: History. Out: who held which GPU when, what users said, when pald was well."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tests.fuzz.history import (
    CycleEnded,
    Ended,
    Event,
    History,
    Name,
    NodeSet,
    Record,
    Requeued,
    Started,
    Submitted,
    Trouble,
    Updated,
    UserDid,
)

ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    rule: str
    at: float
    job: Name | None
    said: str

    def __str__(self) -> str:
        job = (
            ""
            if self.job is None
            else f" job {self.job[0]}" + (f" task {self.job[1]}" if self.job[1] is not None else "")
        )
        return f"{self.promise} {self.rule}: at {self.at:.2f}{job}: {self.said}"


@dataclass(frozen=True, slots=True)
class Held:
    """A job holds these GPUs of a node."""

    start: float
    end: float
    node: str
    slots: frozenset[int]
    job: Name
    shared: frozenset[int] = frozenset()


class Facts:
    def __init__(self, history: History) -> None:
        self.history = history
        self.events = history.events
        self.updates = [e for e in self.events if isinstance(e, Updated)]
        self.ours = [u for u in self.updates if u.pald != ADMIN]
        self.submitted = {e.record.job[0]: e for e in self.events if isinstance(e, Submitted)}
        self.did = [e for e in self.events if isinstance(e, UserDid)]
        self.troubles = [e for e in self.events if isinstance(e, Trouble)]
        self.cycles = [e for e in self.events if isinstance(e, CycleEnded)]
        self.place = {id(event): n for n, event in enumerate(self.events)}
        self.nodes = [e for e in self.events if isinstance(e, NodeSet)]

    def said(self, line: int, what: str = "") -> Iterator[UserDid]:
        return (e for e in self.did if e.line == line and what in ("", e.what))

    @cached_property
    def first_start(self) -> dict[Name, Started]:
        found: dict[Name, Started] = {}
        for event in self.events:
            if isinstance(event, Started):
                found.setdefault(event.record.job, event)
        return found

    @cached_property
    def stays(self) -> list[Held]:
        """Every stay of a job on a node."""
        running: dict[Name, Started] = {}
        found: list[Held] = []
        for event in self.events:
            if isinstance(event, Started):
                running[event.record.job] = event
            elif isinstance(event, Ended | Requeued) and event.job in running:
                found += _stays(running.pop(event.job), event.at)
        for start in running.values():
            found += _stays(start, math.inf)
        return found

    @cached_property
    def pins(self) -> list[Pin]:
        """Every pin that stood in the queue, from when to when."""
        standing: dict[Name, Pin] = {}
        found: list[Pin] = []
        for event in self.events:
            for job, why in _unpinned(event):
                if job in standing:
                    found.append(replace(standing.pop(job), until=event.at, why=why))
            if isinstance(event, Updated) and event.nodes and event.pald != ADMIN:
                for _, after in changed(event):
                    if after.required:
                        standing[after.job] = Pin(after.job, event.at, self.history.ended, event, after, "never")
        return found + list(standing.values())

    def well(self, since: float, until: float) -> bool:
        """pald led, all its cycles were good and nothing went wrong, all that time."""
        if any(t.at < until and t.until > since for t in self.troubles) or since < 0:
            return False
        if any(t.what in ("dbgone", "clock", "kill") and since - 60 < t.at < until for t in self.troubles):
            return False
        ended = [c for c in self.cycles if c.at > since and c.began < until and c.end != "standby"]
        led = {c.pald for c in ended if c.leads}
        return len(led) <= 1 and all(c.end == "ok" for c in ended)

    def looked(self, pald: str, since: float, until: float) -> int:
        """Good cycles of that time."""
        return sum(c.end == "ok" and c.leads and since <= c.began and c.at <= until for c in self.cycles)

    def seen_by(self, at: float) -> float:
        """When pald has looked twice since then: what it can know of by then, it knows."""
        looks = [c.at for c in self.cycles if c.end == "ok" and c.leads and c.began >= at]
        return looks[1] if len(looks) > 1 else math.inf

    def before(self, event: UserDid, n: int) -> bool:
        """Whether somebody who looked when so much had happened could know of it."""
        return self.place[id(event)] < n

    def own_begin(self, record: Record, at: float, n: int | None = None) -> float | None:
        """The begin time that its user asked for, as it stood then; none: none, or it has come. `n`: as in `before`."""
        begin = None
        line = record.job[0]
        options = self.history.options[line]
        submitted = self.submitted.get(line)
        if submitted is not None and (later := seconds_later(options)):
            begin = submitted.at + later
        for event in self.said(line, "begin"):
            if event.at <= at if n is None else self.before(event, n):
                begin = event.at + int(event.words[0]) if int(event.words[0]) else None
        return begin if begin is not None and begin > at else None


@dataclass(frozen=True, slots=True)
class Pin:
    """Nodes that pald asked for in a job's name, while it waited."""

    job: Name
    since: float
    until: float
    update: Updated
    record: Record
    why: str  # it ended


def _unpinned(event: Event) -> Iterator[tuple[Name, str]]:
    """Whose pin is over with this."""
    if isinstance(event, Updated):
        for before, after in changed(event):
            if after.required != before.required or event.nodes is not None:
                yield after.job, "updated"
    elif isinstance(event, Started):
        yield event.record.job, "started"
    elif isinstance(event, Ended):
        yield event.job, "ended"
    elif isinstance(event, UserDid) and event.what in ("edit", "begin", "hold"):
        for record in event.after:
            yield record.job, "user"


def _stays(start: Started, end: float) -> list[Held]:
    return [Held(start.at, end, part.node, part.slots, start.record.job, part.shared) for part in start.parts]


def changed(update: Updated) -> list[tuple[Record, Record]]:
    """The records that it reached, before and after: of tasks that it split off, what they were split from."""
    before = {record.number: record for record in update.before}
    arrays = [record for record in update.before if record.tasks]
    found = []
    for after in update.after:
        was = before.get(after.number) or next((a for a in arrays if after.job[1] in a.tasks), None)
        if was is not None and was != after and meant(update.target, after):
            found.append((was, after))
    return found


def meant(target: str, record: Record) -> bool:
    """Whether that name is one of this record."""
    match = re.fullmatch(r"([0-9]+)(?:_(?:([0-9]+)|\[([0-9,-]+)\]))?", target)
    if match is None:
        return False
    if match[2]:
        return record.job[1] == int(match[2]) or record.tasks == (int(match[2]),)
    if match[3]:
        tasks = numbers(match[3])
        return record.job[1] in tasks or bool(tasks & set(record.tasks))
    return True


def numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


def hosts(text: str) -> frozenset[str]:
    """`n1,n[2-3]`."""
    found: set[str] = set()
    for name, several in re.findall(r"([a-z]+[0-9]*)(?:\[([0-9,-]+)\])?", text):
        found.update({f"{name}{n}" for n in numbers(several)} if several else {name})
    return frozenset(found)


def seconds_later(options: tuple[str, ...]) -> float:
    """Of --begin=now+40."""
    for word in options:
        if match := re.fullmatch(r"--begin=now\+([0-9]+)(hours?|minutes?|seconds?|)", word):
            return int(match[1]) * {"h": 3600, "m": 60}.get(match[2][:1], 1)
    return 0.0
