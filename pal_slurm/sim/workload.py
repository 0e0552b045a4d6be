"""What the simulated users submit. In: a trace reader or generator. Out: Work items in order of submission."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from pathlib import Path

import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import NO_HINT, App, Hint, Job, JobState, Shape

SAID_SHARE = Hint(share=True)
MOVABLE_DRAW, SHARING_DRAW = 17, 19  # a stream of random numbers for each


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One job of a trace: what its user asks for, and how much there really is to do."""

    id: int
    submit: float
    gpus: int
    steps: float
    app: App
    limit_s: float | None = None  # the user's time limit; never enforced, only planned with
    user: str = ""
    requeue: bool = True  # may be moved once it runs
    per_node: int = 0  # GPUs on each of its nodes, if the user said so; 0: any split
    line: int = 0  # of the trace file that holds it; 0: none does
    model: str = ""  # of GPUs, that it has to have; empty: any
    shares: bool = False  # it may have its GPUs together with another job: it said pal:share

    def ideal_s(self) -> float:
        """Run time on median GPUs of the model that is best for it, with no cost of distance."""
        return self.steps * min(self.app.base.values(), default=1.0)

    def as_job(self) -> Job:
        """The record of the queue that a policy would see."""
        return Job(
            id=self.id,
            state=JobState.PENDING,
            submit=int(self.submit),
            user=self.user,
            partitions=("gpu",),
            time_limit_s=None if self.limit_s is None else ceil(self.limit_s),
            shape=_shape(self.gpus, self.per_node),
            gpu_job=True,
            requeue=self.requeue,
            types=(self.model,) if self.model else (),
            hint=SAID_SHARE if self.shares else NO_HINT,
        )


@lru_cache(maxsize=1024)
def _shape(gpus: int, per_node: int) -> Shape:
    if per_node:
        return Shape(min_nodes=gpus // per_node, max_nodes=gpus // per_node, gpus_per_node=per_node)
    return Shape(min_nodes=1, max_nodes=gpus, gpus=gpus)


@dataclass(frozen=True, slots=True)
class Source:
    """The file that jobs were read from, and what it calls the fields that are judged when all are read."""

    path: Path
    gpus: str
    id: str = "job_id"

    def error(self, line: int, column: str, problem: str) -> BadInput:
        return BadInput(f"{self.path}, line {line}, {column}: {problem}.")


Beyond = Callable[[int], tuple[Work, ...]]  # by turn, from 1 on; the same each time that it is asked


@dataclass(frozen=True, slots=True)
class Workload:
    """Work in order of submission, and which part of it the results are about."""

    works: tuple[Work, ...]
    tracked: range  # positions in `works`; the run ends when all of these have ended
    skipped: int = 0  # rows that the reader counted instead of keeping
    notes: tuple[str, ...] = ()
    source: Source | None = None
    beyond: Beyond | None = None  # jobs that follow while some of those that count are there

    def told(self, skipped: int, notes: Iterable[str]) -> Workload:
        """With what the reader has to say of it."""
        return replace(self, skipped=skipped, notes=tuple(notes))

    def counting(self, tracked: range | None) -> Workload:
        """Only the jobs at these positions count in the results: those before and behind only keep the cluster busy."""
        if tracked is None:
            return self
        if tracked.start >= len(self.works):
            raise BadInput(f"The trace has {len(self.works)} jobs; none of {tracked.start} to {tracked.stop - 1}.")
        return replace(self, tracked=range(len(self.works))[tracked.start : tracked.stop])

    def window(self, jobs: int, seed: int) -> Workload:
        """So many of them in a row, from a place that the seed draws; all of them count, and the first comes at 0."""
        if jobs >= len(self.works):
            return self
        first = int(np.random.default_rng([seed, 23]).integers(len(self.works) - jobs + 1))
        works = self.works[first : first + jobs]
        return replace(self, works=works, tracked=range(jobs), beyond=None).from_zero()

    def changed(self, change: Callable[[tuple[Work, ...], int], tuple[Work, ...]]) -> Workload:
        """Each turn's jobs (0: those of the trace) as `change` makes them, of theirs and the turn."""
        beyond = self.beyond
        then: Beyond | None = None if beyond is None else lru_cache(None)(lambda turn: change(beyond(turn), turn))
        return replace(self, works=change(self.works, 0), beyond=then)

    def movable(self, share: float, seed: int) -> Workload:
        """Only this share of the jobs, drawn one by one, may be moved once they run."""
        if share >= 1.0:
            return self

        def some(works: tuple[Work, ...], turn: int) -> tuple[Work, ...]:
            drawn = drawing(seed, turn).random(len(works)) < share
            return tuple(replace(w, requeue=w.requeue and yes) for w, yes in zip(works, drawn.tolist(), strict=True))

        return self.changed(some)

    def sharing(self, share: float, seed: int) -> Workload:
        """Only this share of the jobs, drawn one by one, said pal:share."""
        if not share:
            return self

        def some(works: tuple[Work, ...], turn: int) -> tuple[Work, ...]:
            drawn = drawing(seed, turn, SHARING_DRAW).random(len(works)) < share
            return tuple(replace(w, shares=yes) for w, yes in zip(works, drawn.tolist(), strict=True))

        return self.changed(some)

    def repeated(self) -> Workload:
        """From its last job on the same again, and again: who counts ends on a cluster that is as busy as it was."""
        first, last, works = self.works[0].submit, self.works[-1].submit, self.works
        span = (last - first) * len(works) / max(len(works) - 1, 1)
        most = max(work.id for work in works) + 1

        @lru_cache(None)
        def again(turn: int) -> tuple[Work, ...]:
            return tuple(replace(work, id=work.id + most * turn, submit=work.submit + span * turn) for work in works)

        return replace(self, beyond=again) if span > 0 else self

    def from_zero(self) -> Workload:
        """The same with the first submission at 0."""
        if not self.works:
            return self
        first = self.works[0].submit
        return replace(self, works=tuple(replace(work, submit=work.submit - first) for work in self.works))

    def fitting(self, n_gpus: int) -> Workload:
        """Refuse jobs that the cluster could never hold."""
        for work in self.works:
            if work.gpus > n_gpus:
                said = f"ob {work.id} asks for {work.gpus} GPUs and the cluster has {n_gpus}; give a larger --cluster"
                if self.source is None:
                    raise BadInput(f"J{said}.")
                raise self.source.error(work.line, self.source.gpus, f"j{said}")
        return self


def drawing(seed: int, turn: int, what: int = MOVABLE_DRAW) -> np.random.Generator:
    """What is drawn for each job of a turn."""
    return np.random.default_rng([seed, what, turn] if turn else [seed, what])


def workload(works: Iterable[Work], source: Source | None = None) -> Workload:
    """Sort by submission (ties keep their order) and track everything."""
    ordered = tuple(sorted(works, key=lambda work: work.submit))
    if not ordered:
        raise BadInput("The trace holds no job." if source is None else f"{source.path} holds no job.")
    if len({work.id for work in ordered}) < len(ordered):
        twice, _ = Counter(work.id for work in ordered).most_common(1)[0]
        if source is None:
            raise BadInput(f"Job id {twice} comes twice in the trace.")
        first, again, *_ = sorted(work.line for work in ordered if work.id == twice)
        raise source.error(again, source.id, f"{twice} comes twice, first in line {first}")
    return Workload(ordered, range(len(ordered)), source=source)
