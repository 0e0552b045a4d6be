"""Node lists as Slurm writes them. In: `n[1-3,7]`. Out: names, and back. Never asks a site's group resolver (P9)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from pal_slurm.model.hostlist import unfold_hosts


def unfold(text: str) -> tuple[str, ...]:
    """The names in a node list, in order; none for text that is not one."""
    return unfold_hosts(text) or ()


@lru_cache(maxsize=4096)
def expand(text: str) -> frozenset[str]:
    """The names in a node list; empty for text that is not one."""
    return frozenset(unfold(text))


def fold(names: Iterable[str]) -> str:
    """`n1 n2 n3` as `n[1-3]`."""
    names = list(names)
    try:
        return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    except NodeSetException:  # a number that nobody counts with
        return ",".join(names)
