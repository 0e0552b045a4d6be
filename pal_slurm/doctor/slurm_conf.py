"""slurm.conf as slurmctld reads it. In: the file and what it includes. Out: settings, each with file and line; nodes.

Keys in any case; of a key that stands twice the last counts, as in Slurm; `NodeName=DEFAULT` goes into lines below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pal_slurm.slurm.nodes import NodeRecord
from pal_slurm.slurm.nodeset import unfold

_PAIR = re.compile(r'([A-Za-z_][\w-]*)\s*=\s*("[^"]*"|\S*)')
_MANY = ("nodename", "partitionname", "downnodes", "frontendname", "nodeset", "slurmctldhost", "jobcontainertype")
_DEEPEST = 8  # files that include each other would go on for ever
_MOST_NODES = 100_000


@dataclass(frozen=True, slots=True)
class Stated:
    """One setting as it stands in a file."""

    value: str
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def words(self) -> list[str]:
        return [word.strip() for word in self.value.split(",") if word.strip()]


@dataclass
class SlurmConf:
    file: str
    settings: dict[str, list[Stated]] = field(default_factory=dict)  # by key in lower case, all that stand there
    nodes: list[NodeRecord] = field(default_factory=list)
    partitions: dict[str, Mapping[str, str]] = field(default_factory=dict)
    missing: list[Stated] = field(default_factory=list)  # Include of a file that can't be read

    def get(self, key: str) -> Stated | None:
        """What counts of a setting."""
        return self.settings.get(key.lower(), [None])[-1]

    def words(self, key: str) -> list[str]:
        found = self.get(key)
        return found.words if found else []

    def value(self, key: str, default: str = "") -> str:
        found = self.get(key)
        return found.value if found else default

    def has(self, key: str, word: str) -> bool:
        return word.lower() in (one.lower().rpartition("/")[2] for one in self.words(key))


def read_slurm_conf(file: str, text_of: Callable[[str], str | None]) -> SlurmConf | None:
    """`text_of` reads a file of the site; None where it can't be read."""
    text = text_of(file)
    if text is None:
        return None
    conf, defaults = SlurmConf(file), {"nodename": dict[str, str](), "partitionname": dict[str, str]()}
    for path, number, line in _lines(file, text, text_of, conf, 0):
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        if not pairs:
            continue
        first = next(iter(pairs))
        if first in defaults:
            whole = defaults[first] | pairs
            if pairs[first].upper() == "DEFAULT":
                defaults[first] = whole
            elif first == "nodename":
                conf.nodes += list(_nodes(whole))[: _MOST_NODES - len(conf.nodes)]
            else:
                conf.partitions[pairs[first]] = whole
        elif first not in _MANY:
            for key, value in pairs.items():
                conf.settings.setdefault(key, []).append(Stated(value, path, number))
    return conf


def _lines(
    file: str, text: str, text_of: Callable[[str], str | None], conf: SlurmConf, depth: int
) -> Iterator[tuple[str, int, str]]:
    """File, number and text of each line; one that goes on after a backslash is one line."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        first = first or number
        if bare.endswith("\\"):
            begun += bare[:-1] + " "
            continue
        whole, at = (begun + bare).strip(), first
        begun, first = "", 0
        include = re.fullmatch(r"include\s+(\S+)", whole, re.IGNORECASE)
        if include is None:
            yield file, at, whole
            continue
        path = include[1] if include[1].startswith("/") else f"{file.rpartition('/')[0]}/{include[1]}"
        inner = text_of(path) if depth < _DEEPEST else None
        if inner is None:
            conf.missing.append(Stated(path, file, at))
        else:
            yield from _lines(path, inner, text_of, conf, depth + 1)


def _nodes(keys: Mapping[str, str]) -> Iterator[NodeRecord]:
    for name in unfold(keys["nodename"]):
        yield NodeRecord(name, keys.get("state", ""), features=_features(keys), gres=keys.get("gres", ""))


def _features(keys: Mapping[str, str]) -> str:
    return keys.get("features") or keys.get("feature", "")
