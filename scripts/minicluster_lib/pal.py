"""pal-slurm's own part of a cluster: the SPANK plugin and job_submit.lua, with the settings that suit the cluster.

In: the project's spank/ directory. Out: DIR/lib/pal.so and, in DIR/etc, job_submit.lua, cli_filter.lua
(on slots), pal_task_prolog (with shards), pal_lua.conf, pal_classes.conf and plugstack.conf.
The plugin is compiled inside the release's root, once per content of spank/ and release, and kept in the cache.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .errors import MiniclusterError
from .layout import PROJECT, Layout, cache
from .spec import Spec

_SOURCES = PROJECT / "spank"
TASK_PROLOG = "pal_task_prolog"
CLASSES = {"resnet": "A", "vgg19": "A", "bert": "B", "lstm": "B", "pagerank": "C"}


def prepare(layout: Layout, spec: Spec) -> None:
    """Copy sources and write settings; outside the world, where the project can be read."""
    if not spec.pal or not _SOURCES.is_dir():
        return
    shutil.copytree(_SOURCES, layout.build, ignore=shutil.ignore_patterns("build", "*.so", "*.o"))
    layout.lib.mkdir()
    shutil.copy(_SOURCES / "job_submit.lua", layout.etc)
    if spec.shards:
        shutil.copy(_SOURCES / TASK_PROLOG, layout.etc)
    if spec.gres == "slots" and spec.gpus:
        shutil.copy(_SOURCES / "cli_filter.lua", layout.etc)
    classes = layout.etc / "pal_classes.conf"
    classes.write_text("".join(f"{app} = {name}\n" for app, name in CLASSES.items()))
    (layout.etc / "plugstack.conf").write_text(f"optional {layout.lib}/pal.so classes={classes}\n")
    models = sorted({spec.model_of(i) for i in range(1, spec.nodes + 1)})
    settings = {
        "enabled": "yes",
        "slots": "yes" if spec.gres == "slots" and spec.gpus else "no",
        "models": ",".join(models),
        "alive_file": str(layout.run / "pald.alive"),
        "wake_file": str(layout.run / "pald.wake"),
        **({"shards": "pald"} if spec.shards and spec.pald else {}),
    }
    (layout.etc / "pal_lua.conf").write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))


def _key(layout: Layout, release: str, version: str) -> str:
    digest = hashlib.sha256(f"{release} {version}".encode())
    for path in sorted(layout.build.rglob("*")):
        if path.is_file() and "tests" not in path.parts:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def build(layout: Layout, spec: Spec, environment: dict[str, str]) -> None:
    """Compile the plugin, or take it from the cache; inside the world, where the release's headers are."""
    if not layout.build.is_dir():
        return
    version = subprocess.run(["scontrol", "-V"], env=environment, capture_output=True, text=True, check=False).stdout
    kept = cache() / "plugins" / f"pal-{spec.release}-{_key(layout, spec.release, version)}.so"
    if not kept.exists():
        done = subprocess.run(
            ["make", "-C", layout.build, f"OUT={layout.build}/out"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise MiniclusterError(f"the SPANK plugin does not build (--no-pal leaves it out):\n{done.stdout[-2000:]}")
        _keep(layout.build / "out" / "pal.so", kept)
    shutil.copy(kept, layout.lib / "pal.so")
    shutil.rmtree(layout.build)


def _keep(built: Path, kept: Path) -> None:
    """Into the cache whole or not at all: another cluster may be doing the same."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=kept.parent, suffix=".new")
    os.close(handle)
    shutil.copy(built, scratch)
    Path(scratch).chmod(0o644)
    Path(scratch).rename(kept)
