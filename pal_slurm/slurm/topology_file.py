"""A site's topology before Slurm has it. In: topology.conf or topology.yaml. Out: switches, or BadInput by line.

slurmctld does not start with a tree that is none (a loop, a switch in two others); here that is said beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pal_slurm.errors import BadInput
from pal_slurm.slurm.nodeset import fold, unfold
from pal_slurm.slurm.topology import Switch, named
from pal_slurm.words import digits, printable

_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes", "default"}


@dataclass(frozen=True, slots=True)
class Written:
    """A switch as its line says it."""

    where: str
    nodes: tuple[str, ...]
    below: tuple[str, ...]


def read_topology_file(path: Path, text: str) -> list[Switch]:
    """What the running slurmctld would make of the file's default topology."""
    if path.suffix in (".yaml", ".yml"):
        return _from_yaml(path, text)
    tree: dict[str, Written] = {}
    blocks: dict[str, tuple[str, ...]] = {}
    sizes: list[int] = []
    for where, keys in _lines(path, text):
        if "switchname" in keys:
            written = Written(where, unfold(keys.get("nodes", "")), unfold(keys.get("switches", "")))
            _add(tree, keys["switchname"], written, where)
        elif "blockname" in keys:
            _add(blocks, keys["blockname"], unfold(keys.get("nodes", "")), where)
        elif "blocksizes" in keys:
            sizes = _sizes(keys["blocksizes"].split(","), where)
    return _tree(tree) + _blocks(blocks, sizes)


def _lines(path: Path, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    line = ""
    for number, part in enumerate(text.splitlines(), 1):
        line += part.split("#", 1)[0]
        if line.endswith("\\"):
            line = line[:-1] + " "
            continue
        where, words, line = f"{path}, line {number}", line.split(), ""
        keys: dict[str, str] = {}
        for word in words:
            key, found, value = word.partition("=")
            if not found or key.lower() not in _KEYS:
                raise BadInput(f"{where}: {printable(word, 60)!r} is no `Key=value` of topology.conf")
            keys[key.lower()] = value
        yield where, keys


def _add(to: dict[str, Any], name: str, what: object, where: str) -> None:
    if not name or name in to:
        raise BadInput(f"{where}: {printable(name, 60)!r} is {'named twice' if name else 'no name'}")
    to[name] = what


def _sizes(texts: list[str], where: str) -> list[int]:
    if not texts or not all(digits(text) and 0 < int(text) < 10**7 for text in texts):
        raise BadInput(f"{where}: BlockSizes are whole numbers of nodes, by comma")
    return sorted(map(int, texts))


def _tree(tree: Mapping[str, Written]) -> list[Switch]:
    over: dict[str, str] = {}
    for name, written in tree.items():
        for child in written.below:
            if child not in tree:
                raise BadInput(f"{written.where}: there is no switch {printable(child, 60)!r}")
            if over.setdefault(child, name) != name:
                raise BadInput(
                    f"{written.where}: {printable(child, 60)} is below {over[child]} too; a tree has one way up"
                )
    done: dict[str, Switch] = {}
    for name in tree:
        _switch(name, tree, done)
    return list(done.values())


def _switch(start: str, tree: Mapping[str, Written], done: dict[str, Switch]) -> None:
    """Those below first; without recursion, because a loop has no end."""
    way = [start]
    while way:
        name = way[-1]
        written = tree[name]
        todo = [child for child in written.below if child not in done]
        if name in done or not todo:
            way.pop()
            below = [done[child] for child in written.below]
            level = 1 + max(child.level for child in below) if below else 0
            nodes = dict.fromkeys((*written.nodes, *(node for child in below for node in child.nodes)))
            done.setdefault(name, Switch(name, level, tuple(nodes)))
        elif todo[0] in way:
            loop = [*way[way.index(todo[0]) :], todo[0]]
            raise BadInput(f"{written.where}: a loop, {printable(' > '.join(loop))}; slurmctld would not start with it")
        else:
            way.append(todo[0])


def _blocks(blocks: Mapping[str, tuple[str, ...]], sizes: list[int]) -> list[Switch]:
    """Blocks of blocks: as many of them, in the order of the file, as make up each wider size."""
    found = [Switch(name, 0, nodes) for name, nodes in blocks.items()]
    for level, size in enumerate(sizes[1:] if blocks else (), 1):
        each = max(1, size // sizes[0])
        for at in range(0, len(blocks) - each + 1, each):
            inner = list(blocks.items())[at : at + each]
            nodes = tuple(node for _, names in inner for node in names)
            found.append(Switch(fold(name for name, _ in inner), level, nodes))
    return found


def _from_yaml(path: Path, text: str) -> list[Switch]:
    try:
        topologies = msgspec.yaml.decode(text, type=list[dict[str, Any]])
        chosen = next((t for t in topologies if t.get("cluster_default")), topologies[0])
        kinds = {
            kind: msgspec.convert(chosen.get(kind) or {}, type=dict[str, Any]) for kind in ("tree", "block", "ring")
        }
        where = f"{path}, {printable(str(chosen.get('topology', 'topology')), 60)}"
        tree: dict[str, Written] = {}
        for entry in msgspec.convert(kinds["tree"].get("switches", []), type=list[dict[str, str]]):
            written = Written(where, unfold(entry.get("nodes", "")), unfold(entry.get("children", "")))
            _add(tree, entry.get("switch", ""), written, where)
        blocks: dict[str, tuple[str, ...]] = {}
        for kind, word in (("block", "block"), ("ring", "ring")):
            for entry in msgspec.convert(kinds[kind].get(f"{word}s", []), type=list[dict[str, str]]):
                _add(blocks, entry.get(word, ""), unfold(entry.get("nodes", "")), where)
        sizes = msgspec.convert(kinds["block"].get("block_sizes", []), type=list[int])
    except (msgspec.DecodeError, ValueError, RecursionError, IndexError) as error:
        raise BadInput(f"{path} is no topology.yaml: {error}") from error
    return _tree(tree) + _blocks(blocks, _sizes([str(size) for size in sizes], where) if sizes else [])


def dropped(written: list[Switch], shown: tuple[Switch, ...]) -> list[str]:
    """What of the file the running slurmctld does not tell."""
    there = {switch.name for switch in shown}
    said = []
    for level in sorted({switch.level for switch in written}):
        missing = [switch.name for switch in written if switch.level == level and switch.name not in there]
        whole = all(switch.level != level for switch in written if switch.name in there)
        if missing and shown:
            what = f"level {level}" if whole else "some switches"
            said.append(f"{named(missing)}: {what} of the file that slurmctld does not tell: is it the file in use?")
    return said
