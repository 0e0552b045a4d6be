"""A job of a simulated run. In: what it has to do, what it is given. Out: how far it is at any time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pal_slurm.model import Gpus, Job
from pal_slurm.policy import Progress
from pal_slurm.sim.workload import Work

NEVER = math.inf


@dataclass(slots=True, eq=False)
class Run:
    """The state of one job. `steps` is what was left at `since`, when it (next) does its first step."""

    work: Work
    job: Job  # what policies see of it
    index: int
    steps: float
    gpus: Gpus = ()
    step: float = 0.0
    since: float = 0.0
    end: float = NEVER
    first_start: float = NEVER
    started: float = NEVER  # the present start
    starts: int = 0  # moves too
    attained: float = 0.0  # seconds that it held GPUs before the present start
    comm: float = 1.0  # what its span costs it now
    talked: float = 0.0  # seconds that it lost by its span, until `since`

    @property
    def running(self) -> bool:
        return bool(self.gpus)

    def steps_left(self, now: float) -> float:
        if not self.gpus:
            return self.steps
        return max(self.steps - max(now - self.since, 0.0) / self.step, 0.0)

    def account(self, now: float) -> None:
        """It ran at this speed until now."""
        if self.comm > 1.0 and now > self.since:
            self.talked += (now - self.since) * (1.0 - 1.0 / self.comm)

    def attained_at(self, now: float) -> float:
        return self.attained + (now - self.started if self.gpus else 0.0)

    def progress(self, now: float) -> Progress:
        """As the artifact counts: seconds with GPUs, and ideal run time less those."""
        attained, ideal_s, rest = self.attained_at(now), self.work.ideal_s(), self.steps_left(now)
        return Progress(attained, ideal_s * (1.0 - rest / self.work.steps), ideal_s - attained, rest)
