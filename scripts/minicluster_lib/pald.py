"""pald beside a cluster to play with. In: Spec, the GPUs' true speeds. Out: DIR/etc/pal.yaml, DIR/bin/palctl, DIR/pald/
(its state, scores.csv), and the commands that teach and start it.

It runs as on a site, outside of the cluster's own view of the machine, with the Python of this project's .venv.
"""

import json
import re
import shlex
from pathlib import Path

from .daemons import Daemon
from .errors import MiniclusterError
from .layout import PROJECT, Layout
from .pal import CLASSES as CLASS_OF
from .spec import Spec
from .speeds import Speeds
from .wrappers import INSIDE_PATH

PROGRAMS = PROJECT / ".venv" / "bin"
PYSLURM = "/usr/local/lib/pal-slurm/pyslurm/bin/python"  # where scripts/build-pyslurm puts it in a root
LESSON_SECONDS = 900.0  # of a nightly profile; the other lessons take a second
_MEASURED = "bench --devices fake --scope gpu --warm 0 --cool-wait 0 --rounds 5 --run 0.5"


def check(spec: Spec, root: Path | None) -> None:
    """Say at once what is missing, before anything is made."""
    if not spec.pald:
        return
    missing = [name for name in ("pald", "palctl") if not (PROGRAMS / name).exists()]
    if missing:
        raise MiniclusterError(f"--pald: there is no {PROGRAMS}/{missing[0]}: run scripts/setup")
    if spec.release == "26.05" and root and not Path(f"{root}{PYSLURM}").is_symlink():
        raise MiniclusterError(f"--pald: no pyslurm for {spec.release}: run scripts/build-pyslurm --root {root}")


def prepare(layout: Layout, spec: Spec, speeds: Speeds) -> None:
    """Its files; nothing is started."""
    if not spec.pald:
        return
    layout.pald.mkdir(mode=0o700)
    layout.pald_spool.mkdir()
    layout.pald_spool.chmod(0o1777)  # the nodes' jobs write there, whoever's they are
    rows = [
        f"{node},{slot[1:]},{spec.model_of(i)},{cls},{score}"
        for i, node in enumerate(spec.node_names, 1)
        for slot, scores in speeds[node].items()
        for cls, score in scores.items()
    ]
    (layout.pald / "scores.csv").write_text("\n".join(["node,slot,model,class,score", *rows]) + "\n")
    layout.pal_yaml.write_text(_yaml(layout, spec))
    palctl = layout.bin / "palctl"
    palctl.write_text(
        "#!/bin/sh\n# palctl for this cluster's pald; as root.\n"
        f'exec {shlex.quote(str(PROGRAMS / "palctl"))} --config {layout.pal_yaml} "$@"\n'
    )
    palctl.chmod(0o755)


def _yaml(layout: Layout, spec: Spec) -> str:
    """What this place asks for; everything else is as shipped."""
    backend = "cli"
    if spec.release == "26.05":
        backend = f"pyslurm\n  worker_command: [{layout.bin}/in-cluster]\n  worker_python: {PYSLURM}"
    models = sorted({spec.model_of(i) for i in range(1, spec.nodes + 1)})
    kernels = " ".join(f"-k fake:{cls},pace=0.05,noise=0.01" for cls in sorted(set(CLASS_OF.values())))
    probe = f"PYTHONPATH={shlex.quote(str(PROJECT))} python3 -m pal_slurm.probe {_MEASURED} {kernels} -o {{spool}}/"
    return f"""# `palctl config explain KEY` says what a key means; after a change: minicluster daemon restart pald
cluster:
  backend: {backend}
  bin_dir: {layout.bin}
  models: [{", ".join(models)}]
actuator: {spec.actuator}
policy:
  name: {spec.policy}
state_dir: {layout.pald}
cycle:
  interval_s: 2
  wake_file: {layout.run}/pald.wake
  alive_file: {layout.run}/pald.alive
budget:
  edits_per_s: 100
profile:  # `palctl profile run` measures the fake GPUs
  spool: {layout.pald_spool}
  command: {json.dumps(probe)}
  max_parallel: 8
  minutes: 5
metrics:
  listen: ""
"""


def _palctl(layout: Layout, *words: str) -> Daemon:
    return _beside("palctl", layout, "palctl", *words)


def _beside(program: str, layout: Layout, name: str, *words: str) -> Daemon:
    argv = [str(PROGRAMS / program), "--config", str(layout.pal_yaml), *words]
    environment = {"PATH": INSIDE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/"}
    return Daemon(name, argv, layout.log / f"{name}.log", beside=True, environment=environment)


def lessons(spec: Spec, layout: Layout) -> list[Daemon]:
    """What palctl is to do before pald starts, in order; each has to end well."""
    done = [_palctl(layout, "config", "check"), _palctl(layout, "db", "upgrade")]
    if spec.profile == "perfect":
        done.append(_palctl(layout, "scores", "import", str(layout.pald / "scores.csv")))
    if spec.profile == "measured":
        done.append(_palctl(layout, "profile", "run"))
    return [*done, _palctl(layout, "apps", "set", *(f"{app}={cls}" for app, cls in CLASS_OF.items()))]


def patience(spec: Spec) -> str:
    """What to tell whoever waits for `up` meanwhile."""
    return "the nightly profile is run on all nodes" if spec.profile == "measured" else ""


def daemon(layout: Layout) -> Daemon:
    return _beside("pald", layout, "pald")


def began(layout: Layout) -> bool:
    """Its first cycle is over: it has said what it saw; where it places jobs, job_submit.lua knows by now."""
    log = layout.log / "pald.log"
    return log.exists() and bool(re.search(r"(?m)^(<\d>)?\d+ pending", log.read_text(errors="replace")))
