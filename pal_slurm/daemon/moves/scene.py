"""What the machine looks at, and what it may answer. In: nothing. Out: Scene; Do, Later or Over; its times."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.daemon.reconcile import Fate
from pal_slurm.model import Edit, Ending, Placement

LEASE_S = 30  # of a job between its runs: should pald die, it waits no longer for us
RENEW_S = 12.0  # before its end it is renewed: no move is begun where looks are further apart
SAFE_S = 3.0  # a lease that ends sooner may start it before a pin arrives
UNSURE_S = 5.0  # an edit without an answer, or that seems to have been forgotten, is made again only after this
SEEN_S = RENEW_S + UNSURE_S  # a fence stands at the next look: later than that others have waited long enough for it
MOST_TRIES = 3  # of one kind of step
MOST_LIVES = 3  # a job that goes back to the queue more often than this goes its own way
LONG_S = 600.0  # old nodes that are not done with it for so long are Slurm's matter
KEPT_S = 30.0  # no longer is a target kept from who could start there because the mover's old run has not ended
LATE_S = 120.0  # after its time to save was up: it is not requeued any more
GRACE_S = 30.0  # beyond its time: who saves a little late is still pinned when he comes
FENCE_S = 90.0  # a reservation of ours that nobody lifts ends by itself so long after the time to save
PARTNER_S = 120.0  # beyond what the other one of a swap has to answer in


@dataclass(frozen=True, slots=True)
class Do:
    """This is its next step. `handed`: from then on the planner finds its place."""

    edit: Edit
    handed: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing to do but look again. `handed`: as above, and no edit is needed for it."""

    why: str
    handed: str = ""


@dataclass(frozen=True, slots=True)
class Over:
    ending: Ending
    said: str = ""


Next = Do | Later | Over


@dataclass(frozen=True, slots=True)
class Scene:
    """What stands around the job."""

    now: float
    blocked: str = ""  # why its target can't be had, whatever time goes by
    partner_there: bool = False  # the one whose GPUs it takes still holds the target
    pin: Fate | None = None  # of the newest step, where that is a pin and the job waits
    pin_said: str = ""
    same_second: bool = False  # this Slurm may start a job in the second in which its last run ended
    allowed: bool = True  # moves are switched on
    fenced: bool = False  # its reservation stands
    left_alone: bool = False  # the one whose GPUs it takes was to go, and stays where it is
    home: Placement | None = None  # instead of a target that can't be had: the fence has kept it for it
    placed: tuple[tuple[str, ...], ...] = ()  # once it was handed over: nodes that the planner pinned it to
