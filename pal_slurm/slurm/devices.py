"""Which devices of a node are taken. In: its GresUsed, its GRES, devices that jobs are known to hold. Out: indices.

A device that is shared reads as a free GPU: `gpu:g2:0(IDX:N/A),...,shard:g2:1(1/2)`. From 24.11 on Slurm lists for
each device of a type how much of it is given out (`-` where a whole-GPU job sits), 22.05 names the devices. Nodes whose
GPUs have no types may tell a number only (`gpu:1,shard:3`): then jobs tell which GPUs, and for what nobody tells the
lowest free devices are taken, where Slurm begins too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from pal_slurm.slurm import gres

SHARED = ("shard", "mps")
_PARTS = re.compile(r"\(((?:[0-9]+|-)/[0-9]+(?:,(?:[0-9]+|-)/[0-9]+)*)\)")


def taken(used: str, kinds: Sequence[gres.Gpus], held: Collection[int] = ()) -> set[int]:
    """`kinds`: the node's GPUs as configured; `held`: those that jobs say they hold."""
    width = sum(item.n for item in kinds)
    found = {index for index in (*gres.indices_of(used), *held) if index < width}
    told = gres.count_of(used)
    for item in gres.items_in(used, SHARED):
        places = [index for index in _shared(item, kinds) if index < width]
        found.update(places)
        if item.n and not places and not _PARTS.search(item.rest):
            told += item.n  # each on a device of its own, at worst
    free = (index for index in range(width) if index not in found)
    found.update(index for index, _ in zip(free, range(told - len(found)), strict=False))
    return found


def shards_of(configured: str, used: str, kinds: Sequence[gres.Gpus], free: Collection[int]) -> list[tuple[int, int]]:
    """Of each GPU of a node: as how many shards it may be given out, and how many of them nobody has.

    `free`: devices that nobody has any of. Of one that is taken otherwise than by shards nothing is free.
    """
    there = {item.type: item.n for item in gres.items_in(configured, ("shard",))}
    gone = {item.type: item.n for item in gres.items_in(used, ("shard",))}
    found = []
    for place, kind in enumerate(kinds):  # one GPU of each type: that is what slots are
        many, taken = there.get(kind.type, 0), gone.get(kind.type, 0)
        found.append((many, max(0, many - taken) if taken or place in free else 0))
    return found


def parts_of(detail: str) -> tuple[int, ...]:
    """The devices of one node of which a running job has a part: `shard:1(0/2,1/2)`, on 22.05 `shard:1(IDX:1)`."""
    found = {index for item in gres.items_in(detail, SHARED) for index in _shared(item, ())}
    return tuple(sorted(found))


def _shared(item: gres.Item, kinds: Sequence[gres.Gpus]) -> Iterator[int]:
    yield from item.indices
    parts = _PARTS.search(item.rest)
    if parts is None:
        return
    first = 0
    for kind in kinds:
        if kind.type == item.type:
            break
        first += kind.n
    else:
        first = 0  # of a type that the node does not name: all its devices are meant
    for place, part in enumerate(parts[1].split(",")):
        if not part.startswith(("0/", "-")):
            yield first + place
