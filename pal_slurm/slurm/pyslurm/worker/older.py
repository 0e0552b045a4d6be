"""Talking to a slurmctld older than libslurm. In: a slurm.conf. Out: libslurm set to that slurmctld's protocol.

libslurm of 26.05 can speak the protocols of the releases before it, but says so only when told to, as `squeue -M`
tells it. `pal_rpc_target.so`, built by scripts/build-pyslurm beside the interpreter, does the telling.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MISMATCH = frozenset({1007, 1008, 5005})  # what a slurmctld of another release makes of our messages
# Releases newest first, with the number of their protocol (Slurm writes it shifted by eight).
PROTOCOLS = (("26.05", 45), ("25.11", 44), ("25.05", 43), ("24.11", 42), ("24.05", 41))
_HOST = re.compile(r"([^\s(,]+)(?:\(([^)]+)\))?")


def older_protocols(conf: str, loaded: str) -> Iterator[str]:
    """Sets libslurm to each older protocol in turn, and yields its release; the caller stops when one works."""
    helper = Path(sys.prefix) / "pal_rpc_target.so"
    settings = read_conf(conf)
    host = _HOST.match(settings.get("slurmctldhost", ""))
    if not helper.is_file() or not host or "clustername" not in settings:
        return
    library = ctypes.CDLL(str(helper))
    name, address = settings["clustername"].encode("ascii", "replace"), (host[2] or host[1]).encode("ascii", "replace")
    port = int(settings.get("slurmctldport", "6817").split("-")[0])
    for release, protocol in PROTOCOLS:
        if release < loaded[:5]:
            library.pal_rpc_target(name, address, port, protocol << 8)
            yield release


def setup_of(conf: str, release: str) -> dict[str, object]:
    """What our own slurm.conf says, as the worker's `setup` tells it."""
    settings = read_conf(conf)
    return {
        "release": f"{release}.0",
        "cluster": settings.get("clustername", ""),
        "scheduler": _words(settings.get("schedulerparameters", "")),
        "priority_type": settings.get("prioritytype", ""),
        "priority_flags": [flag.upper() for flag in _words(settings.get("priorityflags", ""))],
        "plugins": settings.get("jobsubmitplugins", ""),
        "topology": "",
    }


def read_conf(conf: str) -> dict[str, str]:
    """Settings of a slurm.conf by lower-case name, the first of each; what it includes is left out."""
    settings: dict[str, str] = {}
    try:
        lines = Path(conf).read_text("utf-8", "replace").splitlines()
    except OSError:
        return settings
    for line in lines:
        key, found, value = line.partition("#")[0].partition("=")
        if found:
            settings.setdefault(key.strip().lower(), value.strip())
    return settings


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
