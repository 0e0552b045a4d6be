"""A block of free TCP ports for one cluster: count -> `Ports`, held by sockets for the life of their holder.

A block is reserved by an abstract Unix socket (a name without a file): the kernel frees it when its last holder dies,
and such names are as wide as the network namespace, just like the ports.
"""

import socket
from dataclasses import dataclass

from .errors import MiniclusterError

UNIT = 32  # ports are reserved in runs of whole units
FIRST, LAST = 11008, 32768  # below the range that Linux gives to outgoing connections
_DAEMON_PORTS = 4


@dataclass(frozen=True)
class Ports:
    """The ports of one cluster, from `base` on."""

    base: int

    @property
    def slurmctld(self) -> int:
        return self.base

    @property
    def slurmdbd(self) -> int:
        return self.base + 1

    @property
    def mariadb(self) -> int:
        return self.base + 2

    @property
    def page(self) -> int:
        return self.base + 3

    def slurmd(self, node: int) -> int:
        """Port of node number `node` (from 1)."""
        return self.base + _DAEMON_PORTS + node - 1


def hold_name(name: str) -> socket.socket | None:
    """Take a machine-wide name that nobody else holds, or None."""
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(f"\0pal-minicluster:{name}")
    except OSError:
        holder.close()
        return None
    return holder


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _take(base: int, count: int) -> tuple[list[socket.socket], int | None]:
    """Try the block at `base`: its holders and None, or nothing and the port in the way."""
    held: list[socket.socket] = []
    for unit in range(base // UNIT, (base + count - 1) // UNIT + 1):
        holder = hold_name(f"ports-{unit * UNIT}")
        if holder is None:
            for other in held:
                other.close()
            return [], unit * UNIT
        held.append(holder)
    for port in range(base, base + count):
        if not _free(port):
            for other in held:
                other.close()
            return [], port
    return held, None


def reserve(nodes: int, fixed: int | None) -> tuple[Ports, list[socket.socket]]:
    """Choose a block for `nodes` nodes: at `fixed` if given, else the first free one."""
    count = _DAEMON_PORTS + nodes
    if fixed is not None:
        held, blocked = _take(fixed, count)
        if blocked is not None:
            raise MiniclusterError(
                f"port {blocked} on 127.0.0.1 is taken (--port {fixed} needs {fixed} to {fixed + count - 1}): "
                "choose another --port, or leave it out and a free block is found"
            )
        return Ports(fixed), held
    for base in range(FIRST, LAST - count, UNIT):
        held, blocked = _take(base, count)
        if blocked is None:
            return Ports(base), held
    raise MiniclusterError(
        f"no run of {count} free ports between {FIRST} and {LAST} on 127.0.0.1: take a cluster down "
        "(`minicluster list`) or ask for fewer nodes"
    )
