"""What users are told. In: a question, who asks. Out: of his own jobs everything, of others' how many are ahead.

Whose a job is stands in its decisions, in what it got and in what pald sees now; a job of which none of them says it is
nobody's. That there is a job of another is told in no other words than that there is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pal_slurm.errors import BadInput
from pal_slurm.model import Reason
from pal_slurm.report.jobs import job_rows
from pal_slurm.report.life import Life, life_of, life_sentences, of_himself, owner, pause_sentence
from pal_slurm.report.present import (
    FORECAST,
    UNSEEN,
    Present,
    RunningNow,
    StartNow,
    WaitingNow,
    forecast_sentences,
)
from pal_slurm.report.text import Row, Value, clock, in_utc
from pal_slurm.report.why import REASONS
from pal_slurm.store import DecisionRepo, OutcomeRepo, Store, Switches

MOST_ROWS = 200
MOST_TOLD = 200  # edits, and starts, of one array
MOST_BYTES = 1_000_000  # of an answer
_JOB = re.compile(r"([0-9]{1,10})(?:_([0-9]{1,10}))?")


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ask: str  # why, jobs, apps
    job: str = ""
    most: int = 100
    utc: bool = False  # times in sentences; else of the host that answers


class Answered(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of them is given."""

    error: str = ""
    lines: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Value], ...] = ()
    records: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Asker:
    name: str
    everything: bool = False  # root, and who pald runs as

    @property
    def known(self) -> bool:
        return self.everything or bool(self.name)

    def owns(self, user: str) -> bool:
        return self.everything or (bool(user) and user == self.name)


@dataclass
class UserAnswers:
    store: Store
    cluster: str
    apps: Callable[[], Sequence[Row]]  # every application, with its `source`
    present: Callable[[], Present | None]

    def to(self, question: Question, asker: Asker) -> Answered:
        """StoreError, BadInput: what to say instead."""
        if not asker.known:
            raise BadInput("this host has no user name for your UID, so pald can't tell who you are: ask your admins")
        if question.ask == "why":
            with in_utc(question.utc):
                return self._why(question.job, asker)
        if question.ask == "jobs":
            return self._jobs(min(max(question.most, 1), MOST_ROWS), asker)
        if question.ask == "apps":
            return self._apps(asker)
        raise BadInput("pald answers why, jobs and apps; for anything else ask your admins")

    def _why(self, text: str, asker: Asker) -> Answered:
        match = _JOB.fullmatch(text)
        if match is None:
            raise BadInput(f"{text[:40]!r} is no job id; write 1234, or 1234_5 for a task of an array")
        number, task = int(match[1]), int(match[2]) if match[2] else None
        life, waits = life_of(self.store, self.cluster, number, task, MOST_TOLD), self._waiting(number)
        if not asker.owns(self._user(number, life)):
            raise BadInput(
                f"no job {text} of yours is known; of others' jobs nothing is told but how many are ahead of yours"
            )
        present = self.present()
        private = () if asker.everything else UNSEEN if present is None else present.private
        life = of_himself(life, private)
        pause = Switches(self.store).paused()
        lines = () if life.empty else tuple(life_sentences(life))
        lines = (pause_sentence(pause), *lines) if pause is not None else lines
        start = None if present is None or waits is None else present.forecasts.get(number)
        ahead = _stands(None if "jobs" in private else waits[0], waits[1], start) if waits is not None else ()
        if present is not None:
            ahead = (*ahead, *forecast_sentences(present, number))
        records = {**life.plain(), **(dict.fromkeys(FORECAST) if present is None else present.forecast(number))}
        return Answered(lines=(*lines, *ahead), records=msgspec.to_builtins(records, str_keys=True))

    def _user(self, number: int, life: Life) -> str:
        """Whose story it is: a job id may come round again, and another's story is not told with it."""
        return owner(life) or next((job.user for job in self._there() if job.job == number), "")

    def _there(self) -> Iterable[RunningNow | WaitingNow]:
        present = self.present()
        return () if present is None else (*present.running, *present.waiting)

    def _waiting(self, number: int) -> tuple[int, WaitingNow] | None:
        present = self.present()
        waiting = present.waiting if present is not None else ()
        return next(((place, job) for place, job in enumerate(waiting) if job.job == number), None)

    def _jobs(self, most: int, asker: Asker) -> Answered:
        repo = OutcomeRepo(self.store, self.cluster)
        got = repo.newest(most) if asker.everything else repo.newest_of(asker.name, most)
        mine = [job.job for job in self._there() if asker.owns(job.user)][-most:]
        decided = DecisionRepo(self.store, self.cluster).of_jobs({*mine, *(outcome.ref.id for outcome in got)})
        rows = job_rows([why for why in decided if asker.owns(why.user)], got, most, self.present())
        return Answered(rows=tuple(rows))

    def _apps(self, asker: Asker) -> Answered:
        """Those that the site described, and those that he ran."""
        rows = self.apps()
        if not asker.everything:
            mine = {job.app for job in self._there() if asker.owns(job.user)}
            mine |= {got.app or "" for got in OutcomeRepo(self.store, self.cluster).newest_of(asker.name, 1000)}
            rows = [row for row in rows if row["source"] in ("pal.yaml", "admin") or row["app"] in mine]
        return Answered(rows=tuple(rows[:MOST_ROWS]))


def _stands(place: int | None, job: WaitingNow, start: StartNow | None) -> tuple[str, ...]:
    """Where it is in the queue at this moment; `place`: None where that is private."""
    ahead = "it waits" if place is None else f"{place} {'job is' if place == 1 else 'jobs are'} ahead of it"
    said = REASONS[Reason(job.reason)] if job.reason in set(Reason) else ""
    until = f"It will probably start at {clock(job.until, '%Y-%m-%d %H:%M')}." if job.until and start is None else ""
    bound = job.reason in (Reason.HELD, Reason.NOT_ELIGIBLE)  # by more than its lease
    until_then = clock(job.lease, "%H:%M:%S")
    lease = f"Should pald be gone, Slurm starts it after {until_then}." if job.lease and not bound else ""
    return (" ".join(filter(None, (f"Now: {ahead}.", said, until, lease))),)
