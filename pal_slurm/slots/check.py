"""`palctl slots check`. In: nodes, settings and partitions of a running cluster. Out: findings, one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pal_slurm.slurm.gres import gpus_in
from pal_slurm.slurm.nodes import NodeRecord
from pal_slurm.slurm.nodeset import fold
from pal_slurm.words import digits

_TYPED = re.compile(r"gres/gpu:(?!g[0-9]{1,3}\b)[A-Za-z0-9_.+-]+", re.IGNORECASE)


class Level(StrEnum):
    FINE = "fine"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    said: str


def check_slots(nodes: Sequence[NodeRecord], settings: Mapping[str, str], billing: Mapping[str, str]) -> list[Finding]:
    """`billing`: TRESBillingWeights of each partition."""
    return [*check_nodes(nodes), *keeps_types(settings, billing), *_settings(settings)]


def check_nodes(nodes: Sequence[NodeRecord]) -> Iterator[Finding]:
    kinds: dict[str, list[str]] = {}
    for node in nodes:
        kind = kind_of(node)
        if kind:
            kinds.setdefault(kind, []).append(node.name)
    if not kinds:
        yield Finding(Level.WRONG, "no node has GPUs: is GresTypes=gpu in slurm.conf, and Gres= on the nodes?")
    for kind, names in kinds.items():
        where = fold(names)
        if kind == "slots":
            yield Finding(Level.FINE, f"{where}: one type per device, in order: pins can name exact devices")
        elif kind == "order":
            yield Finding(
                Level.WRONG,
                f"{where}: slot types are there, but not g0, g1 ... with one device each and in order; "
                "`palctl slots emit` prints the lines",
            )
        else:
            yield Finding(
                Level.NOTE, f"{where}: {kind}: pins name nodes only; `palctl slots emit` prints the lines for slots"
            )
    if "slots" in kinds and len(kinds) > 1:
        yield Finding(Level.WRONG, "some nodes have slots and some do not: pins name nodes only until all have them")


def kind_of(node: NodeRecord) -> str:
    """`slots`, `order` (slot types that are wrong), or what else its GPUs are; empty: it has none."""
    items = [item for item in gpus_in(node.gres) if item.n]
    if not items:
        return ""
    if all(item.n == 1 and item.type == f"g{place}" for place, item in enumerate(items)):
        return "slots"
    if any(item.type[:1] == "g" and digits(item.type[1:]) for item in items):
        return "order"
    types = sorted({item.type for item in items if item.type})
    return f"typed GPUs ({', '.join(types)})" if types else "untyped GPUs"


def keeps_types(settings: Mapping[str, str], billing: Mapping[str, str]) -> Iterator[Finding]:
    """What a site would lose with its types: limits and bills on gres/gpu:TYPE would find nothing any more."""
    places = {
        "AccountingStorageTRES": settings.get("AccountingStorageTRES", ""),
        "PriorityWeightTRES": settings.get("PriorityWeightTRES", ""),
        **{f"TRESBillingWeights of partition {name}": text for name, text in billing.items()},
    }
    for place, text in places.items():
        for typed in _TYPED.findall(text):
            yield Finding(
                Level.NOTE,
                f"{place} names {typed}: limits and bills on a type find nothing once types are slots; "
                "keep the types, pins then name nodes only",
            )


def _settings(settings: Mapping[str, str]) -> Iterator[Finding]:
    if "disable_job_shrink" not in settings.get("SchedulerParameters", "").split(","):
        yield Finding(Level.WRONG, "SchedulerParameters lacks disable_job_shrink: pald refuses to pin without it")
    if "lua" not in settings.get("JobSubmitPlugins", "").split(","):
        yield Finding(
            Level.WRONG, "JobSubmitPlugins lacks lua: no job gets a lease, and `gpu:a100:2` is not translated"
        )
    if "gpu" not in settings.get("GresTypes", "").split(","):
        yield Finding(Level.WRONG, "GresTypes lacks gpu")
