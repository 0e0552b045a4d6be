"""Schedulers that decide anew which jobs run and where, and stop the others. In: arrivals, ends. Out: GPU sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from benchmarks.published.admission import ActiveJob
from pal_slurm.model import Gpus, ScoreTable
from pal_slurm.sim.engine import Run, Stage


class Assignment(Protocol):
    """Which jobs run where, of all jobs of one cluster; told of every one that comes and ends."""

    wake_at: float  # when it wants to be asked again, whatever happens; infinity: at the next event

    def arrive(self, here: ActiveJob) -> None: ...
    def ended(self, here: ActiveJob) -> None: ...
    def learn(self, scores: ScoreTable) -> None: ...
    def act(self, now: float) -> Mapping[int, Gpus] | None:
        """The GPUs of every job that is to run now; a job that runs and is not there is stopped. None: no change."""


class Preemptive:
    """An assignment as a scheduler of the engine."""

    def __init__(self, name: str, assignment: Assignment, *, moves: bool = True, restless: bool = False) -> None:
        """`moves`: jobs that may be moved are."""
        self.name, self.restless = name, restless
        self._assignment, self._moves = assignment, moves
        self._here: dict[int, tuple[Run, ActiveJob]] = {}

    @property
    def wake_at(self) -> float:
        return self._assignment.wake_at

    def arrive(self, run: Run) -> None:
        movable = self._moves and run.job.requeue
        here = ActiveJob(run.job, run.work.app, run.work.gpus, run.progress, movable)
        self._here[run.work.id] = run, here
        self._assignment.arrive(here)

    def ended(self, run: Run, gpus: Gpus) -> None:
        self._assignment.ended(self._here.pop(run.work.id)[1])

    def learn(self, known: ScoreTable) -> None:
        self._assignment.learn(known)

    def act(self, stage: Stage) -> None:
        where = self._assignment.act(stage.now)
        if where is None:
            return
        for job, (run, here) in self._here.items():
            if here.held and job not in where:
                here.held = ()
                stage.stop(run)
        changed = [(*self._here[job], gpus) for job, gpus in where.items() if self._here[job][1].held != gpus]
        changed.sort(key=lambda one: not one[1].held)  # running jobs leave their GPUs before others start
        for run, here, gpus in changed:
            here.held = gpus
            stage.start(run, gpus)
