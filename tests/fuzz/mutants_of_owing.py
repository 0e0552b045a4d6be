"""Mutants of what jobs are owed, and of GPU models that they keep to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pal_slurm.daemon.beside.entitling as entitling
import pal_slurm.daemon.observe as observe
from pal_slurm.model import FairShares, Job
from pal_slurm.policy.entitlement.precedence import DueNow
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


@mutant("who is to get most of all counts least")
def weights_upside_down() -> Patches:
    weight = was(FairShares, "of_account")
    return [(FairShares, "of_account", lambda self, job: 1.0 / max(weight(self, job), 0.01))]


@mutant("what users have had is not looked at: who came first goes first")
def floods_served() -> Patches:
    return [(DueNow, "places", lambda self, *words: {})]


@mutant("what a user claims by pal:by counts against everybody")
def claims_believed() -> Patches:
    wished = was(entitling, "wished")

    def believed(fair: FairShares, jobs: Iterable[Job]) -> FairShares:
        found: FairShares = wished(fair, jobs)
        return replace(found, deadlines={**found.deadlines, **found.wishes})

    return [(entitling, "wished", believed)]


@mutant("a job that keeps to its GPU model is pinned to any")
def model_not_kept() -> Patches:
    return [(observe, "held_to_models", lambda snapshot, *rest: snapshot)]
