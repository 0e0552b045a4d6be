"""How a simulated job takes being told to end, or to save. In: a signal. Out: what it does, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pal_slurm.sim.slurm.controller import Controller
    from pal_slurm.sim.slurm.jobs import SimJob

Answer = Callable[["Controller", "SimJob"], None]


def dies(c: Controller, job: SimJob) -> None:
    """What an application does that has no handler."""
    c.end(job, job.starts, "FAILED")


def exits(c: Controller, job: SimJob) -> None:
    """It takes the signal for a wish to be gone, and ends with 0."""
    c.end(job, job.starts, "COMPLETED")


def requeues(c: Controller, job: SimJob) -> None:
    """It has saved, and goes back to the queue by itself."""
    c.requeue(job.record.id)


def asks_for_less(c: Controller, job: SimJob) -> None:
    """It has saved, goes back to the queue by itself, and wants other nodes from now on."""
    c.requeue(job.record.id)
    job.record.required_nodes = c.nodes[-1].name
    job.changed()


@dataclass(frozen=True, slots=True)
class Manners:
    term_s: float | None = None  # what it takes to end on SIGTERM; beyond KillWait it is killed; None: as all do
    saves_s: float = 0.0  # after the signal
    answer: Answer | None = dies  # None: it ignores the signal, or saves and runs on

    def on_signal(self, name: str, to_script: bool) -> tuple[float, Answer | None]:
        return self.saves_s, self.answer


PLAIN_MANNERS = Manners()
