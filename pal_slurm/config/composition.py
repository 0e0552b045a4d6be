"""pal.yaml's `policy` as a composition, for pald and for the simulator. In: PolicySection. Out: Composition."""

from __future__ import annotations

from pal_slurm.config.schema import PolicySection
from pal_slurm.policy.composition import Composition, compose


def composition_of(policy: PolicySection) -> Composition:
    """Slurm's priority counts, whatever the order of the named policy, unless `policy.order` says otherwise (P5)."""
    return compose(
        policy.name,
        order=policy.order or "slurm",
        placement=policy.placement,
        patience=policy.patience,
        pools="best" if policy.pools == "fastest" else policy.pools,
        entitlement=policy.entitlement,
        fill="" if policy.backfill is None else "easy" if policy.backfill else "none",
    )
