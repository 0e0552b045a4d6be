"""A policy as a whole: one member of each part. In: names. Out: Composition."""

from __future__ import annotations

from dataclasses import dataclass, field

from pal_slurm.errors import ConfigError
from pal_slurm.policy.seams import (
    Entitlement,
    Fill,
    Order,
    Patience,
    Placer,
    PoolPolicy,
    entitlements,
    fills,
    orders,
    patiences,
    placements,
    pool_choices,
)

# name -> order, placement, patience, fill; nothing is moved unless that is asked for
NAMED: dict[str, tuple[str, str, str, str]] = {
    "pal": ("slurm", "thrift", "earlier-finish", "easy"),
    "pm-first": ("slurm", "pm-first", "none", "easy"),
    "packed": ("slurm", "packed", "none", "easy"),
    "random": ("slurm", "random", "none", "easy"),
    "dally": ("slurm", "packed", "dally", "easy"),
    "gavel": ("slurm", "thrift", "earlier-finish", "easy"),  # and `gavel/OBJECTIVE`
}
OURS = frozenset({"pal", "gavel"})  # they go by prices on several models; in the simulator they move and share
OWED = "max-min"  # by plain `gavel`


@dataclass(frozen=True, slots=True)
class Composition:
    name: str
    order: Order
    placement: Placer
    patience: Patience
    fill: Fill
    pools: PoolPolicy = field(default_factory=lambda: pool_choices.get("best"))
    entitlement: Entitlement | None = None  # how much of each pool each job is owed


def composition_names() -> tuple[str, ...]:
    return (*sorted(NAMED), *(name for name in entitlements.names() if name != "none"))


def compose(
    name: str = "pal",
    *,
    order: str = "",
    placement: str = "",
    patience: str = "",
    fill: str = "",
    pools: str = "",
    entitlement: str = "",
) -> Composition:
    """The composition of that name, with the parts that are given put in the place of its own."""
    if name not in composition_names():
        raise ConfigError(f"there is no policy {name!r}; choose one of {', '.join(composition_names())}")
    base, _, objective = name.partition("/")
    parts = NAMED[base]
    owed = f"{base}/{objective or OWED}" if base == "gavel" else "none"
    return Composition(
        name=name,
        order=orders.get(order or parts[0]),
        placement=placements.get(placement or parts[1]),
        patience=patiences.get(patience or parts[2]),
        fill=fills.get(fill or parts[3]),
        pools=pool_choices.get(pools or ("prices" if base in OURS else "best")),
        entitlement=entitlements.get(entitlement or owed),
    )
