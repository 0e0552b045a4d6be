"""A policy as a whole: one member of each seam. In: names. Out: Composition."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.errors import ConfigError
from pal_slurm.policy.seams import Order, Patience, Placer, orders, patiences, placements

# name -> order, placement, patience, backfill
NAMED: dict[str, tuple[str, str, str, bool]] = {
    "pal": ("slurm", "thrift", "choosy", True),
    "pm-first": ("slurm", "pm-first", "none", True),
    "packed": ("slurm", "packed", "none", True),
    "random": ("slurm", "random", "none", True),
}


@dataclass(frozen=True, slots=True)
class Composition:
    name: str
    order: Order
    placement: Placer
    patience: Patience
    backfill: bool = True
    reserve: int = 1  # how many waiting jobs get a reservation that later jobs must not touch; 1 is EASY


def compose(
    name: str = "pal",
    *,
    order: str = "",
    placement: str = "",
    patience: str = "",
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
        backfill=parts[3] if backfill is None else backfill,
    )
