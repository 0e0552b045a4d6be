"""`gavel/OBJECTIVE`: what each job is owed by one of the objectives; with `-agnostic` behind it nobody knows rates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.objectives import AGNOSTIC, OBJECTIVES, objective_named
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.seams import entitlements


@dataclass(slots=True)
class GavelOwed:
    name: str

    def shares(self, division: Division, owners: Entities) -> Shares:
        return objective_named(self.name.partition("/")[2])(division, owners)


def _gavel(name: str, *_: int) -> GavelOwed:
    return GavelOwed(f"gavel/{name}")


for _name in OBJECTIVES:
    for _full in (_name, f"{_name}{AGNOSTIC}"):
        entitlements.register(f"gavel/{_full}", partial(_gavel, _full))
