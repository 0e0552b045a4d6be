"""A topology as a tree of text. In: switches, GPUs and their links by node. Out: lines, widest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pal_slurm.slurm.topology import Switch, Topology


def tree_lines(topology: Topology, gpus: Mapping[str, int]) -> list[str]:
    """Each switch below the narrowest one that holds its first node and is of a higher level."""
    switches = sorted(topology.switches, key=lambda switch: switch.level)
    below: dict[int, list[int]] = {}
    tops = []
    for i, switch in enumerate(switches):
        over = next((j for j in range(i + 1, len(switches)) if _holds(switches[j], switch)), None)
        if over is None:
            tops.append(i)
        else:
            below.setdefault(over, []).append(i)
    lines: list[str] = []
    todo = [(i, 0) for i in reversed(tops)]
    while todo:
        i, depth = todo.pop()
        lines.append("  " * depth + _line(switches[i], gpus, leaf=i not in below))
        todo += [(child, depth + 1) for child in reversed(below.get(i, []))]
    return lines


def _holds(wide: Switch, narrow: Switch) -> bool:
    return wide.level > narrow.level and bool(narrow.nodes) and narrow.nodes[0] in wide.nodes


def _line(switch: Switch, gpus: Mapping[str, int], *, leaf: bool) -> str:
    from pal_slurm.slurm.topology import named

    there = sum(gpus.get(node, 0) for node in switch.nodes)
    nodes = named(switch.nodes) if leaf else f"{len(switch.nodes)} nodes"
    return f"{switch.name}: {nodes}, {there} GPUs"


def linked_nodes(linked: Mapping[str, Sequence[int]], gpus: Mapping[str, int]) -> dict[tuple[int, ...], list[str]]:
    """The nodes by which of their GPUs are linked directly. `linked`: as a gres.conf tells it."""
    alike: dict[tuple[int, ...], list[str]] = {}
    for node, count in gpus.items():
        groups = tuple(linked.get(node, linked.get("", ())))
        if count and len(groups) == count:
            alike.setdefault(groups, []).append(node)
    return alike


def linked_lines(alike: Mapping[tuple[int, ...], Sequence[str]]) -> list[str]:
    from pal_slurm.slots.links import members
    from pal_slurm.slurm.topology import named

    return [
        f"{named(nodes)}: GPUs linked directly: " + ", ".join("-".join(map(str, one)) for one in members(groups))
        for groups, nodes in alike.items()
    ]


def unlike(linked: Mapping[str, Sequence[int]], gpus: Mapping[str, int]) -> list[str]:
    """Nodes of which gres.conf tells the links of another number of GPUs than Slurm knows."""
    from pal_slurm.slurm.topology import named

    found: dict[tuple[int, int], list[str]] = {}
    for node, count in gpus.items():
        told = len(linked.get(node, linked.get("", ())))
        if count and told and told != count:
            found.setdefault((told, count), []).append(node)
    return [
        f"{named(nodes)}: cluster.gres_conf tells links of {told} GPUs, Slurm knows {count}; all count as linked"
        for (told, count), nodes in found.items()
    ]
