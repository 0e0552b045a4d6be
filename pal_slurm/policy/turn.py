"""What kind of customer a waiting job is. In: Job, the moment. Out: Turn.

Ours to place are jobs with our mark whose lease still runs. Any other job may be started by Slurm at any moment, so it
counts as what it is: ahead of those behind it, but nothing that we touch.
"""

from __future__ import annotations

from enum import Enum, auto

from pal_slurm.model import SHARED_LIMITS, Job, Reason, Waits

# Slurm keeps it waiting for something that no free GPU can give: it competes with nobody now.
BLOCKED = (Waits.BLOCKED, Waits.LIMIT, *SHARED_LIMITS, Waits.NEVER)


class Turn(Enum):
    PLACE = auto()  # ours: pin it
    PLAIN = auto()  # ours, but Slurm has to choose the GPUs
    LATER = auto()  # ours, and can't start yet
    THEIRS = auto()  # not ours, and competing
    ASIDE = auto()  # not ours, and not competing


def turn_of(job: Job, now: float) -> tuple[Turn, Reason]:
    """The reason says why it is not simply placed."""
    if job.why is Waits.HELD:
        return Turn.ASIDE, Reason.HELD
    if not job.is_leased(now):
        waits_for_more = job.eligible is None or job.eligible > now or job.why in BLOCKED
        return (Turn.ASIDE if waits_for_more else Turn.THEIRS), Reason.FOREIGN
    if job.own_begin(now) is not None:
        return Turn.LATER, Reason.NOT_ELIGIBLE
    if job.limited:
        return Turn.LATER, Reason.NOT_ELIGIBLE
    if job.dependency:  # Slurm lists what is still unmet; the reason says None after each renewal
        return Turn.LATER, Reason.NOT_ELIGIBLE
    if job.hint.off:
        return Turn.PLAIN, Reason.WANTS_OFF
    if job.het or job.shape is None or job.exclusive or job.required_nodes or job.reservation or job.slurms:
        return Turn.PLAIN, Reason.CANT_PIN
    return Turn.PLACE, Reason.BEST_SPAN
