"""Every objective by its name. In: a name. Out: a function that says how much each job of a Division is owed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pal_slurm.errors import ConfigError
from pal_slurm.policy.entitlement.cost import cost, cost_slo
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.fifo import fifo
from pal_slurm.policy.entitlement.finish_time import finish_time
from pal_slurm.policy.entitlement.isolated import isolated
from pal_slurm.policy.entitlement.makespan import makespan
from pal_slurm.policy.entitlement.max_min import max_min
from pal_slurm.policy.entitlement.max_sum import max_sum
from pal_slurm.policy.entitlement.proportional import proportional
from pal_slurm.policy.entitlement.strategy_proof import strategy_proof
from pal_slurm.policy.entitlement.water_filling import Entities, hierarchical, water_filling

Objective = Callable[[Division, Entities], Shares]

AGNOSTIC = "-agnostic"


def _alone(objective: Callable[[Division], Shares]) -> Objective:
    return lambda division, owners: objective(division)


def _fifo_inside(division: Division, owners: Entities) -> Shares:
    return hierarchical(division, replace(owners, inner=("fifo",) * len(owners.weights)))


OBJECTIVES: dict[str, Objective] = {
    "max-min": _alone(max_min),
    "water-filling": _alone(water_filling),
    "hierarchical": hierarchical,
    "hierarchical-fifo": _fifo_inside,
    "finish-time": _alone(finish_time),
    "makespan": _alone(makespan),
    "max-sum": _alone(max_sum),
    "cost": _alone(cost),
    "cost-slo": _alone(cost_slo),
    "fifo": _alone(fifo),
    "isolated": _alone(isolated),
    "proportional": _alone(proportional),
    "strategy-proof": _alone(strategy_proof),
}


def objective_named(name: str) -> Objective:
    """`max-min`; `max-min-agnostic` knows no rates, and only where a job can't run."""
    base = name.removesuffix(AGNOSTIC)
    if base not in OBJECTIVES:
        raise ConfigError(f"there is no entitlement {name!r}; choose one of {', '.join(OBJECTIVES)}")
    objective = OBJECTIVES[base]
    if base == name:
        return objective

    def blind(division: Division, owners: Entities) -> Shares:
        return objective(replace(division, rates=np.where(division.rates > 0, 1.0, 0.0), pairs=()), owners)

    return blind
