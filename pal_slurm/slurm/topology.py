"""The site's network as Slurm knows it. In: its switches, blocks or rings. Out: racks, the levels above them, faults.

A rack is a switch of the lowest level, a block or a ring. Who is below a switch is told by its own list of nodes and by
nothing else, so switches that contradict each other lead nowhere: what can't be told is neutral, and named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pal_slurm.model import IntArray
from pal_slurm.slurm.nodeset import fold

ONE_SWITCH = "one switch for all tells no racks: node features (rack1, rack2 ...) do, else all nodes are one rack"
MOST_NAMED = 200  # characters of a list of nodes in a sentence


@dataclass(frozen=True, slots=True)
class Switch:
    """One of any kind."""

    name: str
    level: int  # 0: of the lowest, its nodes hang on it directly
    nodes: tuple[str, ...]  # all below it
    size: int = 0  # of a block: up to so many nodes one job has within one of its kind, or not at all; 0: no such rule


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels that tell nodes apart, narrowest first; none: it tells nothing that node features couldn't tell better."""

    switches: tuple[Switch, ...] = ()
    levels: tuple[Mapping[str, str], ...] = ()  # node -> its switch of that level; racks first
    sizes: tuple[int, ...] = ()  # of the blocks of each level; none: no blocks


def topology_of(switches: Iterable[Switch]) -> Topology:
    """A node stays where it is named first; a rack belongs where its first node does."""
    switches = tuple(switches)
    rack: dict[str, str] = {}
    first: dict[str, str] = {}  # node of each rack
    for switch in switches:
        if switch.level == 0:
            for node in switch.nodes:
                if rack.setdefault(node, switch.name) == switch.name:
                    first.setdefault(switch.name, node)
    if len(first) < 2:
        return Topology(switches)
    found, up = [rack], {name: name for name in first}
    sizes = [max(switch.size for switch in switches if switch.level == 0)]
    for level in sorted({switch.level for switch in switches if switch.level > 0}):
        above: dict[str, str] = {}
        for switch in switches:
            if switch.level == level:
                for node in switch.nodes:
                    above.setdefault(node, switch.name)
        wider = {name: above.get(node, up[name]) for name, node in first.items()}
        if len(set(wider.values())) < 2:
            break  # one switch for all
        if len(set(wider.values())) < len(set(up.values())):
            found.append({node: wider[name] for node, name in rack.items()})
            sizes.append(max(switch.size for switch in switches if switch.level == level))
        up = wider
    return Topology(switches, tuple(found), tuple(sizes) if all(sizes) else ())


def in_blocks(names: Sequence[str], topology: Topology) -> tuple[tuple[int, IntArray], ...]:
    """Per level of blocks: up to how many nodes a job has within one of them, and the block of each node; -1: none."""
    found = []
    for size, level in zip(topology.sizes, topology.levels, strict=True):
        numbers = {name: number for number, name in enumerate(dict.fromkeys(level.values()))}
        found.append((size, np.array([numbers.get(level.get(node, ""), -1) for node in names], dtype=np.int32)))
    return tuple(found)


def faults(topology: Topology, nodes: Collection[str]) -> list[str]:
    """What is wrong with it for these nodes (those with GPUs), and what that means here."""
    said: list[str] = []
    leaves = [switch for switch in topology.switches if switch.level == 0]
    if not leaves:
        return said
    below = Counter(node for switch in leaves for node in set(switch.nodes))
    twice = sorted(node for node, switches in below.items() if switches > 1)
    none = sorted(node for node in nodes if node not in below)
    if twice:
        said.append(f"{named(twice)}: in several switches of the lowest level; the first that names a node counts")
    if none:
        said.append(f"{named(none)}: in no switch; such nodes count as one rack of their own")
    if len(leaves) < 2:
        said.append(ONE_SWITCH)
    elif not any(set(below) <= set(switch.nodes) for switch in topology.switches):
        said.append("no switch reaches all nodes: Slurm gives no job nodes of both sides, whatever is free")
    tops = {switch.level for switch in topology.switches}
    gaps = sorted(set(range(max(tops))) - tops)
    if gaps:
        said.append(f"no switch of level {gaps[0]} between others: has Slurm dropped a level?")
    return said


def named(nodes: Iterable[str]) -> str:
    text = fold(nodes)
    return text if len(text) <= MOST_NAMED else text[:MOST_NAMED] + "..."
