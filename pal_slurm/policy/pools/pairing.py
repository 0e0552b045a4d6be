"""What two jobs gain on one GPU: what both do, less what each would do by itself, each in its own best speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pal_slurm.model import Job, JobKind, KnownPairs

GAIN = 0.1  # of a job alone on its best GPUs: less is not worth who gets in whose way


class Sharer(NamedTuple):
    """A job that said that it may share. Those who differ only in `job` are equals."""

    job: int
    kind: JobKind
    owner: str  # who shares only with his own
    rates: tuple[float, ...]  # by pool, over its best; 0: not there
    movable: bool = True  # else it shares only where somebody measured what that costs
    pool: int = -1  # of a host
    own: float = 0.0  # of a guest: its rate in the place that it would give up, what the move costs it taken off


def owner_of(job: Job) -> str:
    """Pairs are of one account, or of one user where jobs have no account."""
    return f"a:{job.account}" if job.account else f"u:{job.user}"


def gain(host: Sharer, guest: Sharer, models: Sequence[str], known: KnownPairs) -> float:
    """What both do more than each by itself, per GPU; below 0 where they can't share."""
    if host.owner != guest.owner or host.kind.gpus != guest.kind.gpus or not guest.rates[host.pool]:
        return -1.0
    model = models[host.pool]
    if not (host.movable and guest.movable) and not known.sure(host.kind, guest.kind, model):
        return -1.0
    of_guest, of_host = known.factor(guest.kind, host.kind, model), known.factor(host.kind, guest.kind, model)
    if math.isinf(max(of_guest, of_host)):  # a host that would never make another step gains nobody anything
        return -1.0
    return guest.rates[host.pool] / of_guest - guest.own - host.rates[host.pool] * (1.0 - 1.0 / of_host)
