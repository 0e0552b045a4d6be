"""Texts of GRES and TRES. In: `gres/gpu:g1:1,cpu=1`, `gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A)`. Out: counts, device indices.

Slurm writes one thing in many ways: `gres:gpu:2` up to 23.02, `gres/gpu:2` later, `gpu:2` in a node's record, `=`
for `:` before a per-task count, no count at all for one, `2K` for 2048 and `(S:0-1)` for sockets. A type may begin with
a digit, or be all digits where a count stands behind it: `gpu:3090:4`, `gpu:1g.5gb`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

_ITEM = re.compile(
    r"(?:gres[/:])?(?P<name>gpu|shard|mps)"
    r"(?::(?P<type>(?![0-9]+[KMG]?(?:\(|$))[A-Za-z0-9_][A-Za-z0-9_.+-]*|\(null\)))?"  # a number at the end is a count
    r"(?:[:=](?P<count>[0-9]{1,18})(?P<unit>[KMG]?))?"
    r"(?P<rest>(?:\([^)]*\))*)"
)
_INDICES = re.compile(r"\(IDX:([0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*)\)")
_SPLIT = re.compile(r",(?![^(]*\))")  # a comma in (IDX:0,2) separates nothing
_SLOT = re.compile(r"g[0-9]{1,3}")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Gpus(NamedTuple):
    """The GPUs of one item of a GRES text."""

    type: str  # "" when untyped
    n: int
    indices: tuple[int, ...] = ()


class Item(NamedTuple):
    """One item of a GRES text: GPUs, or parts of shared ones."""

    type: str
    n: int
    indices: tuple[int, ...]
    rest: str  # what stands in brackets


@lru_cache(maxsize=4096)
def gpus_in(text: str) -> tuple[Gpus, ...]:
    """The GPU items of a text; everything else in it (cpu=1, gres/shard:2, licences) is passed over."""
    return tuple(Gpus(*item[:3]) for item in items_in(text, ("gpu",)))


def items_in(text: str, names: Collection[str]) -> Iterator[Item]:
    """The items of these names; Slurm writes `(null)` for the type of what has none."""
    for item in _SPLIT.split(text):
        match = _ITEM.fullmatch(item.strip())
        if match and match["name"] in names:
            count = int(match["count"] or 1) * _UNITS[match["unit"] or ""]
            kind = match["type"] or ""
            yield Item("" if kind == "(null)" else kind, count, _indices(match["rest"]), match["rest"])


def _indices(text: str) -> tuple[int, ...]:
    listed = _INDICES.search(text)
    if not listed:
        return ()
    numbers: list[int] = []
    for part in listed[1].split(","):
        low, _, high = part.partition("-")
        numbers.extend(range(int(low), int(high or low) + 1))
    return tuple(numbers)


def count_of(text: str) -> int:
    """All GPUs that a text asks for."""
    return sum(item.n for item in gpus_in(text))


@lru_cache(maxsize=4096)
def indices_of(text: str) -> tuple[int, ...]:
    """All device indices in a text, in order."""
    return tuple(sorted(index for item in gpus_in(text) for index in item.indices))


def slots_in(*texts: str) -> tuple[int, ...]:
    """The slots that a request names, whole or as parts: users don't, so it is a pin of ours."""
    types = {item.type for text in texts for item in items_in(text, ("gpu", "shard"))}
    return tuple(sorted(int(kind[1:]) for kind in types if _SLOT.fullmatch(kind)))


def part_of_slot(*texts: str) -> bool:
    """Whether a request names parts of GPUs by slot."""
    return any(_SLOT.fullmatch(item.type) for text in texts for item in items_in(text, ("shard",)))


def types_in(*texts: str) -> tuple[str, ...]:
    """The types that a request names, slots left out: GPU models."""
    types = {item.type for text in texts for item in gpus_in(text) if item.n}
    return tuple(sorted(kind for kind in types if kind and not _SLOT.fullmatch(kind)))


def names_slots(*texts: str) -> bool:
    return bool(slots_in(*texts))


def beside(text: str) -> str:
    """What a TRES text asks for beside GPUs, and parts of one that were named by slot."""
    return ",".join(item for item in _SPLIT.split(text) if item and not (gpus_in(item) or part_of_slot(item)))


def with_count(text: str, gpus: int) -> str:
    """The same, for another number of GPUs; unchanged where it has several items of them."""
    items = _SPLIT.split(text)
    named = [(place, found[0]) for place, item in enumerate(items) if (found := gpus_in(item))]
    if len(named) != 1:
        return text
    place, old = named[0]
    head = items[place].partition("gpu")[0]
    items[place] = f"{head}gpu:{old.type}:{gpus}" if old.type else f"{head}gpu:{gpus}"
    return ",".join(items)


def amount_per_gpu(text: str) -> int:
    """The number in `gres/gpu:4096` as mem_per_tres and cpus_per_tres carry it; 0 for none."""
    return count_of(text) if text else 0


def ask_for(slots: tuple[int, ...], of_each: int, separator: str) -> str:
    """`gres/gpu:g1:1,gres/gpu:g3:1`: these slots, `of_each` devices of each type in all."""
    return ",".join(f"{separator}:g{slot}:{of_each}" for slot in slots)


def same(asked: str, found: str) -> bool:
    """Whether two texts ask for the same GPUs, or parts of them, however they are written."""
    return _normal(asked) == _normal(found)


def _normal(text: str) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for name in ("gpu", "shard"):
        for item in items_in(text, (name,)):
            counts[name, item.type] = counts.get((name, item.type), 0) + item.n
    return {kind: count for kind, count in counts.items() if count}
