"""Partitions that pal.yaml and pal_lua.conf name. In: a Site. Out: advice: names that are none of Slurm's."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from pal_slurm.doctor.advice import Advice, mend, ok
from pal_slurm.doctor.site import Site

STEP = 72
TITLE = "partitions"


def look(site: Site) -> Iterator[Advice]:
    if site.conf is None:
        return
    known = set(site.conf.partitions) | _running(site)
    lua, pal = site.pal_lua or {}, site.pal
    files = (
        (site.beside("pal_lua.conf"), "partitions = {}", [w.strip() for w in lua.get("partitions", "").split(",")]),
        (site.pal_yaml, "canary: {{partitions: [{}]}}", pal.canary.partitions),
        (site.pal_yaml, "moves: {{partitions: [{}]}}", pal.moves.partitions),
        (site.pal_yaml, "profile: {{partition: {}}}", pal.profile.partition.split(",")),
    )
    said = [one for path, line, names in files for one in _unknown(path, line, filter(None, names), known)]
    yield from said or [ok("those that are named are Slurm's")]


def _running(site: Site) -> set[str]:
    """Also those that were made without slurm.conf."""
    text, _ = site.answer("scontrol", ["show", "partition", "-o", "-a"])
    first = (line.split(None, 1)[0] for line in text.splitlines() if line.startswith("PartitionName="))
    return {word.partition("=")[2] for word in first}


def _unknown(path: str, line: str, names: Iterator[str], known: Collection[str]) -> Iterator[Advice]:
    for name in names:
        if name not in known and known:
            near = difflib.get_close_matches(name, known, n=1) or sorted(known)[:1]
            yield mend(f"`{line.format(name)}`: {name} is no partition of this Slurm", line.format(near[0]), path)
