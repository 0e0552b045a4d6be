"""Mutants of what jobs are owed, and of GPU models that they keep to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pal_slurm.daemon.observe as observe
import pal_slurm.policy.entitlement.due_now as due_now
import pal_slurm.slurm.commands.shares as shares
from pal_slurm.model import FairShares, Job
from pal_slurm.policy.entitlement.due_now import DueNow
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


@mutant("who is to get most of all counts least")
def weights_upside_down() -> Patches:
    weight = was(FairShares, "of_account")
    return [(FairShares, "of_account", lambda self, job: 1.0 / max(weight(self, job), 0.01))]


@mutant("who came last is owed most")
def debts_upside_down() -> Patches:
    owed = was(DueNow, "owed_s")
    return [(DueNow, "owed_s", lambda self, job, now: -owed(self, job, now))]


@mutant("who is owed nothing waits until nobody is owed anything")
def nobody_is_owed_the_least() -> Patches:
    return [(due_now, "LEAST", 0.0)]


@mutant("shares that are no numbers are taken for such")
def odd_shares_believed() -> Patches:
    return [(shares, "digits", lambda text: bool(text))]


@mutant("a job that keeps to its GPU model is pinned to any")
def model_not_kept() -> Patches:
    return [(observe, "held_to_models", lambda snapshot, *rest: snapshot)]


@mutant("what a job that was requeued waits for counts from its first submission")
def debt_of_an_earlier_run() -> Patches:
    owed = was(DueNow, "owed_s")

    def since_ever(self: DueNow, job: Job, now: float) -> float:
        return float(owed(self, replace(job, since=None), now))

    return [(DueNow, "owed_s", since_ever)]
