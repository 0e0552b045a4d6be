"""The daemons of one cluster: which there are and how each is started; waiting for a port. Spec -> commands."""

from dataclasses import dataclass, field
from pathlib import Path

from .layout import Layout
from .spec import Spec
from .wrappers import INSIDE_PATH


@dataclass(frozen=True)
class Daemon:
    """One daemon: its name for people, what to run, and where it logs."""

    name: str
    argv: list[str]
    log: Path
    beside: bool = False  # it sees this machine, not the cluster's own view of it
    environment: dict[str, str] = field(default_factory=dict)  # empty: the cluster's


def environment(layout: Layout) -> dict[str, str]:
    path = f"{layout.tools}:{INSIDE_PATH}"
    return {"PATH": path, "SLURM_CONF": str(layout.conf), "LC_ALL": "C.UTF-8", "HOME": "/", "SHELL": "/bin/sh"}


def munged(layout: Layout) -> Daemon:
    run = layout.munge_socket.parent
    log = layout.log / "munged.log"
    options = {
        "key-file": layout.etc / "munge.key",
        "socket": layout.munge_socket,
        "pid-file": run / "munged.pid",
        "seed-file": run / "munged.seed",
        "log-file": log,
    }
    return Daemon("munged", ["munged", "--foreground", *(f"--{k}={v}" for k, v in options.items())], log)


def mariadb(layout: Layout, port: int) -> Daemon:
    argv = [
        "mariadbd",
        "--no-defaults",
        f"--datadir={layout.spool}/mariadb",
        f"--socket={layout.run}/mariadb.sock",
        f"--pid-file={layout.run}/mariadb.pid",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        "--user=root",
        "--innodb-buffer-pool-size=64M",
        "--innodb-log-file-size=16M",
        "--innodb-flush-log-at-trx-commit=0",
        "--performance-schema=OFF",
        f"--init-file={layout.etc}/mariadb.sql",
    ]
    return Daemon("mariadbd", argv, layout.log / "mariadbd.out")


def slurmdbd(layout: Layout) -> Daemon:
    return Daemon("slurmdbd", ["slurmdbd", "-D"], layout.log / "slurmdbd.log")


# Of two slurmctlds none is told its host as "localhost": each takes that for its own.
CONTROL_HOST = "control"
_NAMED = ["unshare", "--uts", "sh", "-ec", f'hostname {CONTROL_HOST}; exec "$@"', "sh"]


def slurmctld(spec: Spec, layout: Layout, fresh: bool = False) -> Daemon:
    argv = [*(_NAMED if spec.backup else []), "slurmctld", "-D", *(["-c"] if fresh else [])]
    return Daemon("slurmctld", argv, layout.log / "slurmctld.log")


def slurmd(layout: Layout, node: str) -> Daemon:
    return Daemon(node, ["slurmd", "-D", "-N", node], layout.log / f"slurmd.{node}.log")


def restartable(spec: Spec, layout: Layout) -> dict[str, Daemon]:
    """What can be stopped and started while the cluster is up."""
    all_of_them = [slurmctld(spec, layout), *(slurmd(layout, node) for node in spec.node_names)]
    if spec.dbd:
        all_of_them.append(slurmdbd(layout))
    return {daemon.name: daemon for daemon in all_of_them}


def listening(port: int) -> bool:
    """Does something listen there? Read from the kernel's table: connecting would be an error in its log."""
    wanted = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[1].endswith(wanted) and words[3] == "0A":
            return True
    return False
