"""A policy as a whole: one member of each seam. In: names. Out: Composition."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.errors import ConfigError
from pal_slurm.policy.seams import Order, Patience, Placer, Preemption, orders, patiences, placements, preemptions

# name -> order, placement, patience, preemption, backfill
NAMED: dict[str, tuple[str, str, str, str, bool]] = {
    "pal": ("slurm", "thrift", "choosy", "none", True),
    "pm-first": ("slurm", "pm-first", "none", "none", True),
    "packed": ("slurm", "packed", "none", "none", True),
    "random": ("slurm", "random", "none", "none", True),
}


@dataclass(frozen=True, slots=True)
class Composition:
    name: str
    order: Order
    placement: Placer
    patience: Patience
    preemption: Preemption
    backfill: bool = True
    reserve: int = 1  # how many waiting jobs get a reservation that later jobs must not touch; 1 is EASY


def compose(
    name: str = "pal",
    *,
    order: str = "",
    placement: str = "",
    patience: str = "",
    preemption: str = "",
    backfill: bool | None = None,
) -> Composition:
    """The composition of that name, with the parts that are given put in the place of its own."""
    if name not in NAMED:
        raise ConfigError(f"there is no policy {name!r}; choose one of {', '.join(sorted(NAMED))}")
    parts = NAMED[name]
    return Composition(
        name=name,
        order=orders.get(order or parts[0]),
        placement=placements.get(placement or parts[1]),
        patience=patiences.get(patience or parts[2]),
        preemption=preemptions.get(preemption or parts[3]),
        backfill=parts[4] if backfill is None else backfill,
    )
