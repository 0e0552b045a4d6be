"""The parts of a policy. In: jobs, an application, the floor. Out: an order, who may pass whom, a placement, a wait.

All are pure: no clock, no I/O, no global random numbers. The daemon and the simulator drive the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from pal_slurm.model import App, Cluster, Job, Placement, Reason, Tier
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.registry import Registry

if TYPE_CHECKING:
    from pal_slurm.policy.entitlement.division import Division, Shares
    from pal_slurm.policy.entitlement.water_filling import Entities
    from pal_slurm.policy.pools.choice import PoolMap


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come, where somebody knows: the simulator always, the daemon for requeued jobs."""

    attained_s: float = 0.0  # seconds that it held GPUs
    done_s: float = 0.0  # what it did meanwhile would take so long on median GPUs with no cost of distance
    remaining_s: float | None = None
    rest_steps: float = 0.0  # still to do; only the simulator knows it


class Order(Protocol):
    def key(self, job: Job, progress: Progress | None) -> tuple[float, ...]:
        """What the order sorts by. It ends with the job's id; without progress the job never ran."""


@dataclass(frozen=True, slots=True)
class Fill:
    """Who may start before a job that is ahead of it and does not fit."""

    name: str
    reserve: int  # how many jobs of each queue get a reservation that later jobs must not touch; 1 is EASY
    strict: bool  # behind the first that does not fit nobody starts

    @property
    def reserves(self) -> bool:
        """Others may start, where what is kept stands."""
        return self.reserve > 0 and not self.strict


class Placer(Protocol):
    def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
        """What fits best now, or None: nothing that the job may be given and that can be asked for is free."""


class Better(NamedTuple):
    """A better start than the one that is offered."""

    slowdown: float  # its step time over the least that there is
    in_s: float  # when there is room for it by what is known of those who run
    tier: Tier


Lessons = tuple[tuple[float, ...], ...]  # what a patience has learned: rows of numbers, which only it can read


class Offer(NamedTuple):
    """The start that a job could have now."""

    tier: Tier
    slowdown: float  # its step time there, over the least that there would be if every GPU were free
    waited_s: float  # since it was submitted
    declined_s: float = 0.0  # since it first had an offer and did not take it
    span_cost: float = 1.0  # what of the slowdown comes from GPUs further apart than that narrowest span
    narrowest: Tier = Tier.GPU  # the span that it would have on an idle cluster
    gpus: int = 1
    run_s: float = 0.0  # how long the job would run on the best GPUs, at least
    better: tuple[Better, ...] = ()  # narrowest first; only where the patience is one that forecasts
    lessons: Lessons = ()


class Wait(NamedTuple):
    """It does not take the offer."""

    reason: Reason
    most_s: float  # how long it declines such offers, from the first on


@dataclass(frozen=True, slots=True)
class Habits:
    """How a patience is to be asked."""

    by_tier: bool = False  # a better offer is one of a narrower span; else one that is less slow
    keeps_word: bool = False  # what it said of an offer stands until then, or until there is a better one
    forecasts: bool = False  # it wants `better`
    changes: bool = False  # what it says may change with what others do: everybody is asked in each plan
    since_submit: bool = False  # its time counts from the submission, not from the first offer


class Patience(Protocol):
    @property
    def habits(self) -> Habits: ...

    def waits(self, job: Job, offer: Offer) -> Wait | None:
        """Why, and how long, a job that could start now should rather wait; None: it starts.

        Of offers that are alike in all else a slower one is never taken sooner: a job that has declined one is asked
        again when there is a better one for it, or when it has waited for so long.
        """


class Promised(NamedTuple):
    """What a job that declines was told: until then it takes nothing that is not better than this."""

    until: float  # it is asked anew then
    badness: float
    reason: Reason

    def answers(self, badness: float, now: float) -> bool:
        """Whether such an offer needs no thought: it is no better, and the time is not over."""
        return badness >= self.badness and now < self.until


class Settled(NamedTuple):
    """A job took what it was offered."""

    job: Job
    offer: Offer
    now: float
    promised: Promised | None  # None: it never declined


@runtime_checkable
class Studied(Protocol):
    """A patience that learns from what came of its waits."""

    name: str  # whose lessons they are

    def learns(self, lessons: Lessons, settled: Sequence[Settled]) -> Lessons: ...


class Entitlement(Protocol):
    name: str

    def shares(self, division: Division, owners: Entities) -> Shares:
        """What each job of the division is owed of each pool; NoAnswer or BadInput: it can't be told."""


class PoolPolicy(Protocol):
    def map(self, cluster: Cluster) -> PoolMap | None:
        """The pools of a cluster, for a choice by prices; None: nobody chooses a pool."""


orders: Registry[Order] = Registry("order", "pal_slurm.policy.order")
fills: Registry[Fill] = Registry("fill", "pal_slurm.policy.fill")
entitlements: Registry[Entitlement | None] = Registry("entitlement", "pal_slurm.policy.entitlement")
pool_choices: Registry[PoolPolicy] = Registry("choice of pools", "pal_slurm.policy.pools")
placements: Registry[Placer] = Registry("placement", "pal_slurm.policy.places")
patiences: Registry[Patience] = Registry("patience", "pal_slurm.policy.patience")
