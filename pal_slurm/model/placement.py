"""Where a job goes, and what was decided about it. In: a planner's choice. Out: Placement, Decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes and the devices expected on each. `exact`: the devices are asked for by slot; else Slurm picks the
    lowest free ones and `gpus` is what the planner reckons it will pick."""

    nodes: tuple[str, ...]
    gpus: tuple[tuple[int, ...], ...]
    exact: bool
    partition: str | None = None  # for a job that named several: one of them, or more by commas
    shard: bool = False  # of its one GPU it asks for a part: another job may have it too

    @property
    def n_gpus(self) -> int:
        return sum(map(len, self.gpus))

    @property
    def slots(self) -> tuple[int, ...] | None:
        """The common slots of an exact pin: no Slurm can be asked for different slots on different nodes."""
        return self.gpus[0] if self.exact else None


class Action(StrEnum):
    START = "pin"  # start it now, there (its word in databases and --json since the first version)
    PLAIN = "plain"  # let Slurm start it now, where it likes
    WAIT = "wait"  # keep the lease
    LEAVE = "leave"  # not ours to touch
    MOVE = "move"  # take a running job's checkpoint, stop it, start it elsewhere
    STOP = "stop"  # take a running job's checkpoint and stop it
    EXCLUDE = "exclude"  # Slurm starts it, in its turn and where it likes, but not there


class Reason(StrEnum):
    """Why a decision came out as it did; stable words for logs, reports and `palctl why`."""

    BEST_SPAN = "best-span"  # least step time over every span that can be asked for
    NO_ROOM = "no-room"  # nothing that it may be given is free now
    KEPT_FOR_MOVER = "kept-for-mover"  # what it could have is where a requeued mover is about to start
    BEHIND_HEAD = "behind-head"  # it fits, but would delay a job ahead of it
    BETTER_SPAN_SOON = "better-span-soon"  # patience: GPUs closer together are expected
    BETTER_POOL_SOON = (
        "better-pool-soon"  # a GPU model that is taken now costs it and the others less, the wait included
    )
    BETTER_GPUS_SOON = "better-gpus-soon"  # patience: what is free would cost it more than a short wait
    CANT_PIN = "cant-pin"  # heterogeneous, odd shape, own node list ...: released plain in its turn
    REFUSED = "refused"  # a pin of it was refused, or changed what it asks for: released plain at once
    PALD_FAULT = "pald-fault"  # deciding about it fails, by a bug of ours: released plain at once
    WANTS_OFF = "wants-off"  # pal:off
    OUTSIDE_CANARY = "outside-canary"  # rollout: only a part of the jobs is placed yet
    NOT_ELIGIBLE = "not-eligible"  # dependency, limits, user's own begin time
    NEUTRAL = "neutral"  # nothing is known that could tell one GPU from another
    OVER_SOON = "over-soon"  # better GPUs would save it less than waiting for us costs: the same
    NOTHING_BETTER = "nothing-better"  # wherever it starts, it runs alike: it waits in Slurm's own queue
    PAST_PLANNED_START = "past-planned-start"  # jobs we don't lease keep it waiting: Slurm's backfill shall reserve
    MAY_PREEMPT = "may-preempt"  # it finds no room, and Slurm may start it in the place of another
    OVERTAKEN = "overtaken"  # jobs we don't lease wait beside it, or start while it waits: Slurm shall reserve
    LEASE_RAN_OUT = "lease-ran-out"  # Slurm may start it, and can't for now: it is leased again
    SHARES = "shares"  # nothing is free, and both do more on the GPU of another of its owner's jobs than that one alone
    BETTER_GPUS = "better-gpus"  # a running job: free ones, or those of one that takes its own, are worth the move
    MAKES_ROOM = "makes-room"  # a running job: where it runs a job that waits can start
    SLOWER_NODES = "slower-nodes"  # they would be slower for it than the middle of those that it may have
    FOREIGN = "foreign"  # no lease of ours
    HELD = "held"


@dataclass(frozen=True, slots=True)
class MoveTerms:
    """What a move is reckoned to cost and to bring, and with whom it goes together."""

    cost_s: float  # what the job loses
    gain_s: float  # what it wins over the time that counts, cost not taken off
    step_before: float | None = None  # by the one equation
    partner: int | None = None  # the running job whose GPUs it takes: that one goes too, and so on in a ring
    makes_room_for: int | None = None
    further: tuple[int, ...] = ()  # further running jobs whose GPUs it takes: they go too

    @property
    def partners(self) -> tuple[int, ...]:
        """All whose GPUs it takes."""
        return () if self.partner is None else (self.partner, *self.further)


class Alongside(NamedTuple):
    """A job that is put on the GPU of one that runs."""

    job: int  # whose GPU it was
    factor: float  # on the step time of the one that comes
    others: float  # on that of the one that is there
    gain: float  # what both do more than the one by itself, in jobs alone on their best GPUs
    measured: bool = True  # else the factors are assumed, and these two are to show them


class PoolCost(NamedTuple):
    """A pool that was weighed for a job."""

    pool: str
    step_time: float  # on its median GPUs, by the one equation
    rate: float  # over that of its best pool
    doubt: float  # how far off that may be, as a share
    source: str  # who says so
    price: float  # what a second there costs those who wait, in seconds
    cost_s: float  # what the job's run there costs it and the others, and the wait for it
    wait_s: float  # the part of it that is its wait; 0: it is free
    free: bool | None  # None: it would have cost more even so, and nobody looked


@dataclass(frozen=True, slots=True)
class Decision:
    job: int
    task: int | None  # array task, where the record still holds several
    action: Action
    reason: Reason
    placement: Placement | None = None
    step_time: float | None = None  # predicted by the one equation
    slurm_step_time: float | None = None  # the same for what Slurm itself would choose
    rank: int = 0  # its place in the order
    slurm_placement: Placement | None = None  # what Slurm itself would choose, as far as it can be reckoned
    until: float | None = None  # when one that waits will probably start, or takes what it is offered, if that is known
    terms: MoveTerms | None = None  # of MOVE and STOP
    weighed: tuple[PoolCost, ...] = ()  # where GPU models differ
    together: Alongside | None = None  # with whom it has its GPU

    def ranked(self, rank: int) -> Decision:
        """The same at its place in the order."""
        return Decision(
            self.job, self.task, self.action, self.reason, self.placement, self.step_time, self.slurm_step_time, rank,
            self.slurm_placement, self.until, self.terms, self.weighed, self.together,
        )  # fmt: skip
