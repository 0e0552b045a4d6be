"""The last decision about each job, and why. In: Why records, once per cycle. Out: one Why, for `palctl why`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, insert, select, true, update

from pal_slurm.model import NO_CONSENT, Consent, Decision, Due, JobRef, Placement
from pal_slurm.store.engine import Store
from pal_slurm.store.jsontext import dump, load
from pal_slurm.store.tables import decisions

# Made once: asked for in most cycles
_KEY = ("cluster", "job", "submit", "task")
_AGAIN = update(decisions).where(*(decisions.c[name] == bindparam(f"b_{name}") for name in _KEY))
_NEW = insert(decisions)
_SOME = 500  # databases bound the number of parameters of one statement


@dataclass(frozen=True, slots=True)
class Weighed:
    """One placement that was looked at, with the factors of the one equation."""

    what: str  # "chosen", "Slurm's own choice", "fewest nodes" ...
    placement: Placement
    base: float
    worst_score: float
    comm: float
    step_time: float
    tier: str
    known: float  # share of its GPUs whose score is known


@dataclass(frozen=True, slots=True)
class Why:
    """What was known and weighed when a job was decided on."""

    decision: Decision
    submit: int
    decided_at: float
    actuator: str
    app: str | None  # as the user tagged it
    app_known: bool
    cls: str
    gpus: int  # asked for
    free_gpus: int | None  # in the partitions that it may use, when the plan began; None: its user is not told
    ahead: int | None  # jobs before it in the order; None: its user is not told
    weighed: tuple[Weighed, ...] = ()
    pinnable: bool = True
    consent: Consent = NO_CONSENT  # to be moved while it runs
    user: str = ""  # whose job it is; empty: an older pald did not write it down
    due: Due | None = None  # what it is owed, where an entitlement counts
    same: str = ""  # the GPU model that its pal:same holds it to; `-`: it said so, and may have any now
    same_up: bool = True  # some of that model can be used
    share: bool = False  # it says pal:share
    alone: str = ""  # and has its GPUs to itself all the same: why
    tasks: int = 0  # of an array: it is about so many that waited, those that this plan starts among them
    name: str = ""  # of the job, as its user named it; cut off
    unread: str = ""  # a word of its comment that means nothing to us; `-`: the whole comment can't be read

    @property
    def ref(self) -> JobRef:
        return JobRef(self.decision.job, self.submit, self.decision.task)


class DecisionRepo:
    """The decisions of one cluster; a decision that did not change is not written again."""

    def __init__(self, store: Store, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._written: dict[JobRef, int] = {}

    def record(self, reasons: Iterable[Why]) -> int:
        """Keep the last decision per job; how many were new or different."""
        fresh = [(why, mark) for why in reasons if self._written.get(why.ref) != (mark := _mark(why))]
        if not fresh:
            return 0
        self._store.put_each([why for why, _ in fresh], self._put, lambda why: f"the decision about {_job(why)}")
        self._written |= {why.ref: mark for why, mark in fresh}
        return len(fresh)

    def _put(self, db: Connection, why: Why) -> None:
        job, submit, task = why.ref
        values = {
            "decided_at": why.decided_at,
            "action": why.decision.action.value,
            "reason": why.decision.reason.value,
            "why": dump(why),
        }
        keys = {"cluster": self._cluster, "job": job, "submit": submit, "task": _stored(task)}
        if not db.execute(_AGAIN, values | {f"b_{name}": keys[name] for name in _KEY}).rowcount:
            db.execute(_NEW, keys | values)

    def of_job(self, job: int) -> list[Why]:
        """The last decisions about a job id (one per array task), newest first."""
        return self._of(decisions.c.job == job, 1000)

    def of_jobs(self, jobs: Iterable[int]) -> list[Why]:
        """The last decisions about these job ids, newest first."""
        wanted, found = sorted(set(jobs)), []
        for first in range(0, len(wanted), _SOME):
            found += self._of(decisions.c.job.in_(wanted[first : first + _SOME]), 10_000)
        return sorted(found, key=_latest)

    def newest(self, most: int = 100) -> list[Why]:
        return self._newest(true(), most)

    def since(self, decided_at: float) -> list[Why]:
        """The last decision about each job that was decided on since then, newest first."""
        return self._newest(decisions.c.decided_at >= decided_at, 1_000_000)

    def forget_written(self) -> None:
        """Rows may have been removed: what is decided next is written, also where it is nothing new."""
        self._written.clear()

    def _newest(self, condition: ColumnElement[bool], most: int) -> list[Why]:
        return self._find(condition, most, decisions.c.decided_at.desc(), decisions.c.job.desc())

    def _of(self, condition: ColumnElement[bool], most: int) -> list[Why]:
        """By their key, an array's own first. Asked for the newest, SQLite goes by times, and reads every row."""
        c = decisions.c
        return sorted(self._find(condition, most, c.job.desc(), c.submit.desc(), c.task), key=_latest)

    def _find(self, condition: ColumnElement[bool], most: int, *order: ColumnElement[Any]) -> list[Why]:
        query = select(decisions.c.why).where(decisions.c.cluster == self._cluster, condition)
        with self._store.reading() as db:
            return [load(text, Why) for text in db.execute(query.order_by(*order).limit(most)).scalars()]


def _job(why: Why) -> str:
    return f"job {why.decision.job}"


def _latest(why: Why) -> tuple[float, int]:
    return -why.decided_at, -why.decision.job


def _stored(task: int | None) -> int:
    """Part of a key, which may not be null."""
    return -1 if task is None else task


def _mark(why: Why) -> int:
    """Equal when there is nothing new to say: what changes every cycle by itself is left out."""
    return hash(replace(why, decided_at=0.0, free_gpus=0, ahead=0, decision=replace(why.decision, rank=0, weighed=())))
