"""The second slurmctld of a cluster, which stands by as if on another host: its settings, and how it is started."""

from .daemons import CONTROL_HOST, Daemon
from .layout import Layout
from .spec import Spec

HOST, ADDRESS = "standby", "127.0.0.2"
_CONTROL = "ctl"  # of DIR/run: each host has its own
# Its own host name, pid file and log; StateSaveLocation and all else are shared.
_ELSEWHERE = """hostname {host}
mount --bind {run}/{host} {run}/{control}
mount --bind {log}/{host}.log {log}/slurmctld.log
exec slurmctld -D"""


def control_hosts(spec: Spec) -> list[str]:
    """The lines of slurm.conf that say where slurmctld runs; the second takes over soon."""
    if not spec.backup:
        return ["SlurmctldHost=localhost(127.0.0.1)"]
    return [f"SlurmctldHost={CONTROL_HOST}(127.0.0.1)", f"SlurmctldHost={HOST}({ADDRESS})", "SlurmctldTimeout=5"]


def hosts(spec: Spec) -> str:
    """The cluster's /etc/hosts."""
    return f"127.0.0.1 localhost {CONTROL_HOST}\n{ADDRESS} {HOST}\n" if spec.backup else "127.0.0.1 localhost\n"


def pid_file(spec: Spec, layout: Layout) -> str:
    return f"{layout.run}/{_CONTROL}/slurmctld.pid" if spec.backup else f"{layout.run}/slurmctld.pid"


def prepare(layout: Layout) -> None:
    for path in (layout.run / _CONTROL, layout.run / HOST):
        path.mkdir()
    (layout.log / f"{HOST}.log").touch()


def daemon(layout: Layout) -> Daemon:
    script = _ELSEWHERE.format(host=HOST, run=layout.run, control=_CONTROL, log=layout.log)
    return Daemon(HOST, ["unshare", "--mount", "--uts", "sh", "-ec", script], layout.log / f"{HOST}.log")


def stands_by(layout: Layout) -> bool:
    said = layout.log / f"{HOST}.out"
    return said.exists() and "background mode" in said.read_text()
