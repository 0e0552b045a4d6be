"""Makes a cluster's directory: Spec -> files, ready for the keeper. Nothing is started here."""

import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
from pathlib import Path

from . import backup, config, database, hollow, pal, pald, users, wrappers
from .errors import MiniclusterError
from .layout import PROJECT, Layout, cache, home
from .ports import Ports
from .processes import Process
from .spec import Spec
from .speeds import Speeds

_NULL_DEVICE = os.makedev(1, 3)


def check_machine(spec: Spec) -> None:
    """Say at once what is missing, before anything is made."""
    if os.geteuid() != 0:
        raise MiniclusterError("a mini-cluster needs root: private mounts, device files, daemons that change user")
    wanted = ["nsenter", "setpriv", *(["mariadbd", "mariadb-install-db"] if spec.dbd else [])]
    if spec.release == "native":
        wanted += ["slurmctld", "slurmd", "munged", *(["slurmdbd"] if spec.dbd else [])]
    missing = [tool for tool in wanted if not shutil.which(tool, path=wrappers.INSIDE_PATH)]
    if missing:
        raise MiniclusterError(f"not installed: {', '.join(missing)}: run scripts/install-slurm")
    users.check(spec)


def release_root(release: str) -> Path | None:
    """The release's root, built now if this is the first time; None for this machine's own."""
    if release == "native":
        return None
    tool = PROJECT / "scripts" / "rootfs"
    # A session of its own, so that an interrupted build ends with all its processes.
    build = subprocess.Popen([tool, release], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        path, _ = build.communicate()
    except BaseException:
        os.killpg(build.pid, signal.SIGTERM)
        build.wait()
        raise
    if build.returncode != 0:
        raise MiniclusterError(f"scripts/rootfs {release} failed, see above")
    return Path(path.strip())


def make(
    layout: Layout, spec: Spec, ports: Ports, speeds: Speeds, root: Path | None, owner: Process | None = None
) -> str:
    """Write everything; returns the mark of the new world. The cluster ends when `owner` does."""
    mark = f"pal-minicluster-{secrets.token_hex(8)}"
    _make_dir(layout.dir)
    facts = {"base_port": ports.base, "root": str(root) if root else None, "mark": mark, "owner": str(owner or "")}
    layout.facts.write_text(json.dumps(facts))
    layout.spec.write_text(spec.to_json())
    for path in (layout.etc, layout.log, layout.run, layout.bin, layout.tools, layout.dev, layout.spool):
        path.mkdir()
    for path in (layout.munge_socket.parent, layout.world, layout.run / "root", layout.spool / "slurmctld"):
        path.mkdir()
    for node in spec.node_names:
        (layout.spool / node).mkdir()
    if spec.backup:
        backup.prepare(layout)
    _make_devices(layout, spec)
    if spec.hollow:
        (layout.spool / hollow.FIRST).mkdir()
        shutil.copy(hollow.SOURCE, layout.run)
    pal.prepare(layout, spec)
    _write_config(layout, spec, ports)
    if spec.dbd:
        database.make(layout, ports)
    (layout.dir / "speeds.json").write_text(json.dumps(speeds, indent=1))
    if spec.shards:
        (layout.dir / "pairs.json").write_text(json.dumps(spec.pairs, indent=1))
        (layout.run / "together").mkdir()
        (layout.run / "together").chmod(0o1777)  # whoever's jobs they are
    wrappers.install(layout, root, cache())
    pald.prepare(layout, spec, speeds, ports, users.make(layout, spec))
    return mark


def _make_dir(path: Path) -> None:
    """Tried again, because the last `down` may be removing the directory above at this moment."""
    for attempt in range(5):
        try:
            home().mkdir(mode=0o755, parents=True, exist_ok=True)
            path.mkdir(mode=0o755)
            return
        except FileNotFoundError:
            if attempt == 4:
                raise


def _make_devices(layout: Layout, spec: Spec) -> None:
    for i in range(spec.gpus):
        path = layout.dev / f"gpu{i}"
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, _NULL_DEVICE)
        except OSError as error:
            raise MiniclusterError(
                f"cannot make the device file {path}: {error.strerror}. It needs CAP_MKNOD and a file system that "
                "takes devices; PAL_MINICLUSTER_HOME chooses another place, --gpus 0 does without GPUs"
            ) from error


def _write_config(layout: Layout, spec: Spec, ports: Ports) -> None:
    files = {
        "slurm.conf": config.slurm_conf(spec, ports, layout),
        "gres.conf": config.gres_conf(spec, layout),
        "topology.conf": config.topology_conf(spec),
        "cgroup.conf": "" if spec.release == "native" else "CgroupPlugin=disabled\n",
        "hosts": backup.hosts(spec),
    }
    for name, text in files.items():
        (layout.etc / name).write_text(text)
    (layout.etc / "plugstack.conf").touch()
    key = layout.etc / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
