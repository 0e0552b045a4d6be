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
_HOST = re.compile(r"^\s*SlurmctldHost\s*=\s*([^\s(#]+)(?:\(([^)]+)\))?", re.MULTILINE | re.IGNORECASE)
_PORT = re.compile(r"^\s*SlurmctldPort\s*=\s*(\d+)", re.MULTILINE | re.IGNORECASE)
_NAME = re.compile(r"^\s*ClusterName\s*=\s*([^\s#]+)", re.MULTILINE | re.IGNORECASE)


def older_protocols(conf: str, loaded: str) -> Iterator[str]:
    """Sets libslurm to each older protocol in turn, and yields its release; the caller stops when one works."""
    helper = Path(sys.prefix) / "pal_rpc_target.so"
    try:
        text = Path(conf).read_text("utf-8", "replace")
    except OSError:
        return
    host, name = _HOST.search(text), _NAME.search(text)
    if not helper.is_file() or not host or not name:
        return
    port = _PORT.search(text)
    library = ctypes.CDLL(str(helper))
    for release, protocol in PROTOCOLS:
        if release < loaded[:5]:
            address = (host[2] or host[1]).encode("ascii", "replace")
            library.pal_rpc_target(
                name[1].encode("ascii", "replace"), address, int(port[1]) if port else 6817, protocol << 8
            )
            yield release
