"""A job's list of excluded nodes, where some are ours. In: nodes of ours, its user's own list. Out: one list, and back.

No field of a job is ours to write on a site without job_submit.lua. So the list tells by itself: our nodes come first
and stand between two mentions of one of them; behind them, byte for byte, comes what its user wrote.

    n3,n[3,7-9],n3,n1         n3 and n7 to n9 are ours, n1 is the user's

Slurm takes a node twice and keeps the text (22.05 to 26.05, over a restart as well); squeue shows it in order and once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from pal_slurm.model import Excluded
from pal_slurm.model.hostlist import expand_hosts, unfold_hosts
from pal_slurm.slurm.nodeset import fold

LONGEST = 1000  # of the whole: Slurm bounds no list, squeue's columns and people do
OWN = re.compile(r"[A-Za-z0-9._,\[\]-]*")
_OURS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*),(.+?),\1(?:,(.*))?")


def with_ours(nodes: Iterable[str], own: str) -> str:
    """`nodes`: at least one."""
    names = sorted(set(nodes))
    ours = f"{names[0]},{fold(names)},{names[0]}"
    return f"{ours},{own}" if own else ours


@lru_cache(maxsize=4096)
def ours_of(text: str) -> Excluded | None:
    """None: nothing in it is ours, or somebody edited our part."""
    match = _OURS.fullmatch(text)
    if match is None:
        return None
    nodes, own = expand_hosts(match[2]), match[3] or ""
    if not nodes or expand_hosts(own) is None or with_ours(nodes, own) != text:
        return None
    return Excluded(nodes, own)


def own_of(text: str) -> str:
    """What its user wrote."""
    found = ours_of(text)
    return text if found is None else found.own


def understood(text: str) -> bool:
    return OWN.fullmatch(text) is not None and unfold_hosts(text) is not None
