"""pald beside a cluster to play with. In: Spec, the GPUs' true speeds. Out: DIR/etc/pal.yaml, DIR/bin/palctl, DIR/pald/
(its state, scores.csv), and the commands that teach and start it.

It runs as on a site, outside of the cluster's own view of the machine, with the Python of this project's .venv.
"""

import json
import os
import re
import shlex
from pathlib import Path

from .daemons import Daemon
from .errors import MiniclusterError
from .layout import PROJECT, Layout
from .pal import CLASSES as CLASS_OF
from .ports import Ports
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
    missing = [
        name for name in ("pald", "palctl", *(["pal-page"] if spec.page else [])) if not (PROGRAMS / name).exists()
    ]
    if missing:
        raise MiniclusterError(f"--pald: there is no {PROGRAMS}/{missing[0]}: run scripts/setup")
    if spec.release == "26.05" and root and not Path(f"{root}{PYSLURM}").is_symlink():
        raise MiniclusterError(f"--pald: no pyslurm for {spec.release}: run scripts/build-pyslurm --root {root}")


def prepare(layout: Layout, spec: Spec, speeds: Speeds, ports: Ports, group: int | None) -> None:
    """Its files; nothing is started."""
    if not spec.pald:
        return
    layout.pald.mkdir(mode=0o700)
    layout.pald_spool.mkdir()
    if group is not None:  # jobs of the cluster's users write there as well
        os.chown(layout.pald_spool, -1, group)
        layout.pald_spool.chmod(0o3730)
    rows = [
        f"{node},{slot[1:]},{spec.model_of(i)},{cls},{score}"
        for i, node in enumerate(spec.node_names, 1)
        for slot, scores in speeds[node].items()
        for cls, score in scores.items()
    ]
    (layout.pald / "scores.csv").write_text("\n".join(["node,slot,model,class,score", *rows]) + "\n")
    layout.pal_yaml.write_text(_yaml(layout, spec, ports))
    palctl = layout.bin / "palctl"
    palctl.write_text(
        "#!/bin/sh\n# palctl for this cluster's pald; as root.\n"
        f'exec {shlex.quote(str(PROGRAMS / "palctl"))} --config {layout.pal_yaml} "$@"\n'
    )
    palctl.chmod(0o755)


def _yaml(layout: Layout, spec: Spec, ports: Ports) -> str:
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
  patience: "{spec.patience}"
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
users:
  socket: {layout.users_socket}
page:  # here everybody may see everything
  listen: 127.0.0.1:{ports.page}
  privacy: open
{_apps(spec)}{_moves(spec)}{spec.pal_yaml}"""


def _apps(spec: Spec) -> str:
    """What distance costs them."""
    lines = ["apps:\n"] if spec.comm else []
    for app, costs in spec.comm.items():
        node, rack, cluster = costs.split("/")
        comm = f"comm: {{node: {node}, rack: {rack}, cluster: {cluster}}}"
        lines.append(f"  {app}:\n    class: {CLASS_OF.get(app, 'A')}\n    {comm}\n")
    return "".join(lines)


def _moves(spec: Spec) -> str:
    """With the actuator `move`: jobs here last minutes, and a restart costs them seconds."""
    if spec.actuator != "move":
        return ""
    return """moves:
  mode: asked
  first_s: 5
  last_s: 0
  per_job: 20
  per_user: 10000
  per_cluster: 10000
  share: 0.2
  cost_s: 4
  large_cost_s: 4
"""


def _palctl(layout: Layout, *words: str) -> Daemon:
    return _beside("palctl", layout, "palctl", *words)


def _beside(program: str, layout: Layout, name: str, *words: str) -> Daemon:
    argv = [*_view(layout), str(PROGRAMS / program), "--config", str(layout.pal_yaml), *words]
    environment = {"PATH": INSIDE_PATH, "LC_ALL": "C.UTF-8", "HOME": "/"}
    return Daemon(name, argv, layout.log / f"{name}.log", beside=True, environment=environment)


def _view(layout: Layout) -> list[str]:
    """Words that let a program know the users that only the cluster has."""
    if not (layout.etc / "passwd").exists():
        return []
    script = 'mount --bind "$0/passwd" /etc/passwd; mount --bind "$0/group" /etc/group; exec "$@"'
    return ["/usr/bin/unshare", "--mount", "--propagation", "private", "sh", "-euc", script, str(layout.etc)]


def as_user(layout: Layout, user: str) -> list[str]:
    """Words that run palctl as that user, who may read nothing of pald's and asks it."""
    id_of = {line.split(":")[0]: line.split(":")[2:4] for line in _passwd(layout).splitlines() if line.count(":") > 3}
    if user not in id_of:
        raise MiniclusterError(f"--user {user}: there is no such user, neither of the cluster nor of this machine")
    number, group = id_of[user]
    asking = [f"PAL_SOCKET={layout.users_socket}", "PAL_CONFIG=/nowhere/pal.yaml"]
    became = ["/usr/bin/setpriv", f"--reuid={number}", f"--regid={group}", "--clear-groups", "--"]
    return ["/usr/bin/env", "-C", "/", *asking, *became, str(PROGRAMS / "palctl")]


def _passwd(layout: Layout) -> str:
    own = layout.etc / "passwd"
    return (own if own.exists() else Path("/etc/passwd")).read_text()


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


def page(layout: Layout) -> Daemon:
    return _beside("pal-page", layout, "pal-page")


def began(layout: Layout) -> bool:
    """Its first cycle is over: it has said what it saw; where it places jobs, job_submit.lua knows by now."""
    log = layout.log / "pald.log"
    return log.exists() and bool(re.search(r"(?m)^(<\d>)?\d+ pending", log.read_text(errors="replace")))
