"""The parts of a policy. In: jobs, an application, the floor. Out: an order, who may pass whom, a placement, a wait.

All are pure: no clock, no I/O, no global random numbers. The daemon and the simulator drive the same objects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pal_slurm.model import App, Job, Placement, Reason, Tier
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.registry import Registry


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come, where somebody knows: the simulator always, the daemon for requeued jobs."""

    attained_s: float = 0.0
    remaining_s: float | None = None


class Order(Protocol):
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        """What the order sorts by. It ends with the job's id; without progress the job never ran."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Who may start before a job that is ahead of it and does not fit."""

    name: str
    reserve: int  # how many jobs of each queue get a reservation that later jobs must not touch; 1 is EASY
    strict: bool  # behind the first that does not fit nobody starts


class Placer(Protocol):
    def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
        """What fits best now, or None: nothing that the job may be given and that can be asked for is free."""


class Offer(NamedTuple):
    """The start that a job could have now."""

    tier: Tier
    slowdown: float  # its step time there, over that on median GPUs of the narrowest span that it could have
    waited_s: float  # since it was submitted
    declined_s: float = 0.0  # since it first had an offer and did not take it
    faster: float = math.inf  # GPUs of the cluster, taken ones too, that are less slow than the offer's slowest
    span_cost: float = 1.0  # what of the slowdown comes from GPUs further apart than that narrowest span


class Wait(NamedTuple):
    """It does not take the offer."""

    reason: Reason
    most_s: float  # how long it declines such offers, from the first on


class Patience(Protocol):
    def waits(self, job: Job, offer: Offer) -> Wait | None:
        """Why, and how long, a job that could start now should rather wait; None: it starts.

        Of offers that are alike in all else a slower one is never taken sooner: a job that has declined one is asked
        again when there is a better one for it, or when it has waited for so long.
        """


# These go by how far a job has come. Of jobs that wait until they start and then stay, none has come any way: they are
# of use only where running jobs are stopped for others.
BY_PROGRESS = frozenset({"las", "srtf"})

orders: Registry[Order] = Registry("order", "pal_slurm.policy.order")
fills: Registry[Fill] = Registry("fill", "pal_slurm.policy.fill")
placements: Registry[Placer] = Registry("placement", "pal_slurm.policy.places")
patiences: Registry[Patience] = Registry("patience", "pal_slurm.policy.patience")
