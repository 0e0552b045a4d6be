"""Nodes that nobody stands behind, for tests of size: one slurmd registers them all. Spec -> lines, a daemon.

They take jobs that start no process (`salloc --no-shell`), and batch jobs up to the moment in which one would start.
What slurmctld asks any of them, that one slurmd answers.
"""

import subprocess
from pathlib import Path

from .daemons import Daemon, environment
from .errors import MiniclusterError
from .layout import Layout
from .ports import Ports
from .spec import Spec

FIRST = "h1"
SOURCE = Path(__file__).with_name("hollow.c")
# The most that Slurm takes. slurmctld asks all nodes how they are three times in that time (with 0: each 100 s); h1's
# slurmd answers for all of them with its own name, and 26.05 takes the others for nodes that do not respond (idle*).
SETTINGS = {"SlurmdTimeout": "65533"}
QUIET_S = 8.0  # slurmctld asks once, seconds after its start: nodes that stay idle for so long have that behind them


def nodes(spec: Spec) -> str:
    """As Slurm writes them, with a comma in front; empty where there are none."""
    return f",h[1-{spec.hollow}]" if spec.hollow else ""


def racks(spec: Spec) -> dict[str, str]:
    """Rack -> its nodes."""
    size, count = spec.rack_size, -(-spec.hollow // spec.rack_size)
    return {f"hrack{i + 1}": f"h[{i * size + 1}-{min(spec.hollow, (i + 1) * size)}]" for i in range(count)}


def node_lines(spec: Spec, ports: Ports, gres: str) -> list[str]:
    where = f"NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports.slurmd(spec.nodes + 1)}"
    return [f"NodeName={some} {where}{gres} Features={spec.model_of(1)},{rack}" for rack, some in racks(spec).items()]


def go(layout: Layout) -> Path:
    """While this file is there, h1's slurmd registers the others."""
    return layout.run / "hollow.go"


def daemon(layout: Layout, spec: Spec) -> Daemon:
    """Compiles what makes a slurmd speak for others, and says how to start it."""
    library = layout.run / "hollow.so"
    done = subprocess.run(
        ["gcc", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, layout.run / SOURCE.name, "-ldl", "-lpthread"],
        env=environment(layout), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise MiniclusterError(f"{SOURCE.name} does not compile:\n{done.stderr[-2000:]}")
    extra = {"LD_PRELOAD": str(library), "HOLLOW_NODES": str(spec.hollow), "HOLLOW_GO": str(go(layout))}
    argv = ["slurmd", "-D", "-N", FIRST]
    return Daemon(FIRST, argv, layout.log / f"slurmd.{FIRST}.log", environment=environment(layout) | extra)
