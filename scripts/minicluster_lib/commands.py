"""up, down, status, list, exec, daemon: what the command line asks for -> what is done and said."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from . import pald, ports, setup
from .errors import MiniclusterError
from .layout import PROJECT, Layout, home
from .processes import Process, in_world, kill_world
from .spec import Spec
from .speeds import Speeds


def keeper_of(layout: Layout) -> Process | None:
    try:
        return Process.parse(layout.keeper.read_text())
    except OSError:
        return None


def _mark(layout: Layout) -> str | None:
    try:
        return str(json.loads(layout.facts.read_text())["mark"])
    except (OSError, ValueError, KeyError):
        return None


def _hold(layout: Layout) -> socket.socket:
    """The right to make or remove this cluster."""
    holder = ports.hold_name(f"dir-{layout.dir}")
    if holder is None:
        spec = Spec.from_json(layout.spec.read_text()) if layout.spec.exists() else None
        what = f" ({spec.release}, {spec.nodes} nodes)" if spec else ""
        raise MiniclusterError(
            f"the mini-cluster {layout.name}{what} is up already, or on its way up or down: use it, take it down "
            f"(scripts/minicluster down --name {layout.name}), or choose another --name"
        )
    return holder


def _sweep(layout: Layout) -> None:
    """Remove what a cluster without a keeper left."""
    mark = _mark(layout)
    left = kill_world(mark) if mark else []
    if left:
        raise MiniclusterError(
            f"{len(left)} processes of {layout.name} would not die: {', '.join(str(p.pid) for p in left)}"
        )
    if layout.dir.exists():
        shutil.rmtree(layout.dir, onerror=_but_gone)


def _but_gone(_call: object, _path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
    """Its keeper may be taking the same away."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def _remove_home() -> None:
    """Another cluster may still live there: then it stays."""
    try:
        home().rmdir()
    except OSError:
        return


def up(spec: Spec, speeds: Speeds, until_gone: int | None = None) -> None:
    """Start it, wait until every node is idle, and say how to use it. It ends when process `until_gone` does."""
    begun = time.monotonic()
    owner = Process.of(until_gone) if until_gone else None
    if until_gone and not owner:
        raise MiniclusterError(f"--until-gone {until_gone}: there is no such process")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    setup.check_machine(spec)
    layout = Layout.of(spec.name)
    root = setup.release_root(spec.release)
    pald.check(spec, root)
    name_holder = _hold(layout)
    if layout.dir.exists():
        print(f"minicluster: removing what an earlier {spec.name} left", file=sys.stderr)
        _sweep(layout)
    chosen, port_holders = ports.reserve(spec.nodes + bool(spec.hollow), spec.port)
    try:
        setup.make(layout, spec, chosen, speeds, root, owner)
        files_done = time.monotonic() - begun
        timings = _run_keeper(layout, [name_holder, *port_holders])
    except BaseException as error:
        _sweep(layout)
        _remove_home()
        if isinstance(error, OSError):
            raise MiniclusterError(f"{error.filename or layout.dir}: {error.strerror}") from error
        raise
    _summary(layout, spec, chosen, {"files": files_done, **timings}, time.monotonic() - begun)


def _run_keeper(layout: Layout, holders: list[socket.socket]) -> dict[str, float]:
    ours, theirs = socket.socketpair()
    inherited = [theirs.fileno(), *(h.fileno() for h in holders)]
    with (layout.log / "keeper.log").open("wb") as log:
        keeper = subprocess.Popen(
            ["/usr/bin/python3", "-m", "minicluster_lib.keeper", str(layout.dir), str(theirs.fileno())],
            cwd=PROJECT / "scripts",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=inherited,
            start_new_session=True,
        )
    theirs.close()
    message: dict[str, object] = {}
    try:
        for line in ours.makefile():
            message = json.loads(line)
            if "say" not in message:
                break
            print(f"minicluster: {message['say']}", file=sys.stderr)
    except BaseException:
        ours.close()
        keeper.wait(30)
        raise
    ready = message.get("ready")
    if isinstance(ready, dict):
        return ready
    try:
        said = (layout.log / "keeper.log").read_text().strip()
    except FileNotFoundError:  # it takes everything away itself
        said = ""
    keeper.wait(30)
    raise MiniclusterError(str(message.get("error") or f"the keeper ended without a word\n{said}"))


def _summary(layout: Layout, spec: Spec, chosen: ports.Ports, timings: dict[str, float], total: float) -> None:
    tool = os.path.relpath(PROJECT / "scripts" / "minicluster")
    steps = ", ".join(f"{what} {seconds:.2f}" for what, seconds in timings.items())
    user = f"--user {spec.users[0]} " if spec.users else ""
    job = (
        "--pal-app=resnet --gres=gpu:2 --wrap 'srun palwork --steps 50'"
        if spec.pald
        else "--gres=gpu:1 --wrap 'sleep 10'"
    )
    does = f"{'places jobs' if spec.actuator != 'shadow' else 'only decides'} ({spec.actuator}), policy {spec.policy}"
    beside = (
        f"  pald       {does}; scores: {spec.profile}\n             {tool} exec --name {spec.name} -- palctl status\n"
    )
    print(
        f"{spec.name} is up in {total:.2f} s: {version(layout)}, {spec.nodes} nodes x {spec.gpus} GPUs, all idle"
        f"  ({steps})\n"
        f"  directory  {layout.dir}   (slurmctld on 127.0.0.1:{chosen.slurmctld})\n"
        f"  use it     {tool} exec --name {spec.name} {user}-- sbatch {job}\n"
        f"             {layout.bin}/squeue   (any client, from any program)\n"
        f"{beside if spec.pald else ''}"
        f"{f'  page       http://127.0.0.1:{chosen.page}' + chr(10) if spec.page else ''}"
        f"  stop it    {tool} down --name {spec.name}"
    )


def version(layout: Layout) -> str:
    done = subprocess.run([layout.bin / "scontrol", "-V"], capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip().replace("slurm-wlm", "Slurm")


def down(layout: Layout) -> None:
    """Stop and remove it, whatever state it is in."""
    if not layout.dir.exists():
        raise MiniclusterError(f"there is no mini-cluster {layout.name} (looked for {layout.dir})")
    mark = _mark(layout)
    keeper = keeper_of(layout)
    if keeper:
        keeper.kill(signal.SIGTERM)
        if not keeper.wait_gone(20):
            keeper.kill()
            keeper.wait_gone(5)
    deadline = time.monotonic() + 10
    while (holder := ports.hold_name(f"dir-{layout.dir}")) is None:
        if time.monotonic() > deadline:
            raise MiniclusterError(f"{layout.name} is just being made by another command: wait for it, then try again")
        time.sleep(0.02)
    with holder:
        _sweep(layout)
    if mark and in_world(mark):
        raise MiniclusterError(f"processes of {layout.name} are still there: {in_world(mark)}")
    _remove_home()


def ask(layout: Layout, order: str, daemon: str) -> dict[str, object]:
    """An order to the keeper: start, stop, kill or restart one daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(30)
        try:
            link.connect(str(layout.control))
            link.sendall(json.dumps({"do": order, "daemon": daemon}).encode() + b"\n")
            reply: dict[str, object] = json.loads(link.makefile().readline())
        except (OSError, ValueError) as error:
            raise MiniclusterError(f"the mini-cluster {layout.name} does not answer ({error}): is it up?") from error
    if "error" in reply:
        raise MiniclusterError(str(reply["error"]))
    return reply


def names() -> list[str]:
    if not home().is_dir():
        return []
    return sorted(path.name for path in home().iterdir() if path.is_dir())


def describe(name: str) -> dict[str, object]:
    """What `list` and `status --json` print of one cluster."""
    layout = Layout.of(name)
    try:
        spec = Spec.from_json(layout.spec.read_text())
        facts = json.loads(layout.facts.read_text())
    except (OSError, ValueError, TypeError, MiniclusterError):  # what another version of this tool made, too
        return {"name": name, "state": "remains"}
    keeper = keeper_of(layout)
    ready = layout.control.exists()
    state = ("up" if ready else "starting") if keeper else "remains"
    about: dict[str, object] = {"name": name, "state": state, "release": spec.release, "nodes": spec.nodes}
    about |= {
        "gpus": spec.gpus,
        "dbd": spec.dbd,
        "pald": _beside(spec),
        "directory": str(layout.dir),
        "slurmctld_port": facts["base_port"],
    }
    if keeper:
        about["keeper"] = keeper.pid
        about["processes"] = len(in_world(facts["mark"])) + len(_pids(layout).keys() & {"pald", "pal-page"})
    return about


def _beside(spec: Spec) -> str:
    return spec.actuator if spec.pald else "no"


def _pids(layout: Layout) -> dict[str, int]:
    try:
        return dict(json.loads((layout.run / "pids.json").read_text()))
    except (OSError, ValueError):
        return {}


def status(layout: Layout) -> str:
    """A page for people."""
    about = describe(layout.name)
    if about["state"] != "up":
        raise MiniclusterError(f"the mini-cluster {layout.name} is not up ({about['state']})")
    spec = Spec.from_json(layout.spec.read_text())
    wanted = {"munged", "slurmctld", *spec.node_names, *({"slurmdbd", "mariadbd"} if spec.dbd else ())}
    wanted |= {"pald"} if spec.pald else set()
    wanted |= {"pal-page"} if spec.page else set()
    stopped = sorted(wanted - set(_pids(layout))) or ["none"]
    parts = [
        f"{about['name']}: up, {version(layout)}, {about['nodes']} nodes x {about['gpus']} GPUs, "
        f"{about['processes']} processes, keeper {about['keeper']}, slurmctld on 127.0.0.1:{about['slurmctld_port']}",
        f"daemons stopped: {', '.join(stopped)}; pald: {_beside(spec)}",
    ]
    for argv in (["sinfo"], ["squeue"]):
        try:
            done = subprocess.run(
                [layout.bin / argv[0]], capture_output=True, text=True, timeout=15, check=False, cwd=Path("/")
            )
            parts.append((done.stdout or done.stderr).rstrip())
        except subprocess.TimeoutExpired:
            parts.append(f"{argv[0]}: no answer in 15 s")
    return "\n".join(parts)
