"""Who waits, or would run badly, may have the GPUs of one that runs. In: hosts, guests, costs. Out: a host for a guest.

maximise the sum over pairs of  gpus (what the guest does there - what it would do by itself - what the host does less)
where each counts in its own best speed; a host has one guest at most, and a pair that gains less than `GAIN` is none.

Equals are counted and not named, so the program has a column for each two kinds, and its corners are whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pal_slurm.model import Job, JobKind, KnownPairs
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, NoAnswer, packed

GAIN = 0.1  # of a job alone on its best GPUs: less is not worth who gets in whose way
MOST_S = 1.0  # for the solver


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


def paired(
    hosts: Sequence[Sharer], guests: Sequence[Sharer], models: Sequence[str], known: KnownPairs
) -> Mapping[int, int]:
    """Guest to host; of equal guests the first ones."""
    seats, parties = _kinds(hosts), _kinds(guests)
    if not seats or not parties:
        return {}
    worth = np.array([[gain(seat, party, models, known) for seat in seats] for party in parties])
    party, seat = np.nonzero(worth >= GAIN)
    if not len(party):
        return {}
    size = np.array([one.kind.gpus for one in parties], dtype=float)[party]
    entries = packed(np.column_stack((party, len(parties) + seat)), np.ones((len(party), 2)))
    upper = np.array([float(len(who)) for kinds in (parties, seats) for who in kinds.values()])
    columns = Columns(size * worth[party, seat], np.full(len(party), INFINITY), *entries)
    try:
        found = LinearProgram(columns, np.full(len(upper), -INFINITY), upper).solve(MOST_S).columns
    except NoAnswer:
        return {}
    come, free = list(parties.values()), list(seats.values())
    out: dict[int, int] = {}
    for p, s, many in zip(party.tolist(), seat.tolist(), np.rint(found).astype(int).tolist(), strict=True):
        for _ in range(many):
            out[come[p].pop(0)] = free[s].pop(0)
    return out


def _kinds(sharers: Sequence[Sharer]) -> dict[Sharer, list[int]]:
    """Jobs by what they are but for their number."""
    kinds: dict[Sharer, list[int]] = {}
    for one in sharers:
        kinds.setdefault(one._replace(job=0), []).append(one.job)
    return kinds
