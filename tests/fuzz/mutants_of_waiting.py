"""Mutants of who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pal_slurm.daemon.cycle as cycle
from pal_slurm.model import Reason, RunEstimate, RunTimes
from pal_slurm.policy.easy import Easy
from pal_slurm.policy.patience.earlier_finish import EarlierFinish
from pal_slurm.policy.pools.choice import PoolChoice
from pal_slurm.policy.seams import Offer, Wait
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]
HOUR_S = 3600.0


@mutant("every job is taken to run for an hour")
def always_an_hour() -> Patches:
    return [(RunTimes, "of", lambda self, job, app="": RunEstimate(HOUR_S, 0.1))]


@mutant("an offer is declined without a forecast: whoever gains by better GPUs waits a minute for them")
def no_forecast() -> Patches:
    def waits(self: EarlierFinish, job: object, offer: Offer) -> Wait | None:
        return Wait(Reason.BETTER_GPUS_SOON, 60.0) if offer.slowdown > 1.0 else None

    return [(EarlierFinish, "waits", waits)]


@mutant("another GPU model is taken to be free at once: how long jobs hold it counts nothing")
def pools_without_wait() -> Patches:
    return [(PoolChoice, "_wait", lambda self, option, gpus: 1.0)]


@mutant("moves take what is kept for the first job that waits")
def moves_take_what_is_kept() -> Patches:
    proposals = was(cycle, "proposals")
    return [(cycle, "proposals", lambda *words: proposals(*words[:7]))]


@mutant("a job of several nodes has no reservation: small ones go on before it")
def wide_not_reserved() -> Patches:
    reserve = was(Easy, "reserve")

    def narrow(self: Easy, job: Any, need: Any, *, plain: bool) -> Any:
        wide = job.shape is not None and job.shape.least_gpus > 4
        return None if wide else reserve(self, job, need, plain=plain)

    return [(Easy, "reserve", narrow)]
