"""Node lists as Slurm writes them. In: `n[1-3,7]`. Out: names, and back. Never asks a site's group resolver (P9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

MOST_NODES = 200_000  # a list that folds out to more is a mistake or an attack
_SAFE = re.compile(r"[A-Za-z0-9._,\[\]-]*")
_RANGE = re.compile(r"(\d+)-(\d+)")


@lru_cache(maxsize=4096)
def unfold(text: str) -> tuple[str, ...]:
    """The names in a node list, in order; none for text that is not one."""
    if not text or text == "(null)" or not _SAFE.fullmatch(text):
        return ()
    size = 1
    for low, high in _RANGE.findall(text):
        size += max(0, int(high[:9]) - int(low[:9]))
    if size > MOST_NODES:
        return ()
    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ()


@lru_cache(maxsize=4096)
def expand(text: str) -> frozenset[str]:
    """The names in a node list; empty for text that is not one."""
    return frozenset(unfold(text))


def fold(names: Iterable[str]) -> str:
    """`n1 n2 n3` as `n[1-3]`."""
    return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
