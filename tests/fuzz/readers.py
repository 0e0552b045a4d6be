"""Every reader of what others write. In: bytes. Out: nothing but a refusal with a sentence.

What reads the same kind of text stands together and is given the same input; a folder of `corpus` each, with inputs
that a hand wrote and those that a search found. Where an input stands for several files, lines `== NAME` part them.
What must hold beyond that nobody raises is asserted here, too.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pal_slurm import config
from pal_slurm.doctor.examine import examine
from pal_slurm.doctor.site import Site
from pal_slurm.intake.samples import samples_of
from pal_slurm.intake.score_document import placed_scores
from pal_slurm.intake.score_file import read_scores
from pal_slurm.model import App, Apps
from pal_slurm.probe import importers
from pal_slurm.probe.document import Device
from pal_slurm.probe.jobfile import salvage
from pal_slurm.probe.kernels import command
from pal_slurm.probe.owners import began, job_of
from pal_slurm.probe.reading import read
from pal_slurm.probe.reporting import parse
from pal_slurm.sim import profiles
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.costs import parse_costs, parse_uplinks
from pal_slurm.sim.policies import read_policy
from pal_slurm.sim.sweep.grid import read_sweep
from pal_slurm.sim.sweep.kept import KeptRuns
from pal_slurm.sim.synthetic import parse_recipe
from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.traces.gavel import read_pairs, read_throughputs
from pal_slurm.slots.gres_conf import read_gres_conf
from pal_slurm.slots.links import linked_groups
from pal_slurm.slurm.pyslurm.worker.older import setup_of
from pal_slurm.slurm.topology import faults, topology_of
from pal_slurm.slurm.topology_file import dropped, read_topology_file
from pal_slurm.store.place import file_system
from tests.fuzz import readers_of_slurm as slurm
from tests.fuzz.guided import Reader, every
from tests.fuzz.script import read as read_script

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))  # palwork's own place

NOW = 1_800_000_000.0
CORPUS = Path(__file__).parent / "corpus"
_HOME = tempfile.TemporaryDirectory(prefix="pal-readers")
HOME = Path(_HOME.name)
_DEVICE = Device("GPU-1", "n1", 0, "A100", "nvml", serial="123")
_APPS = Apps({"resnet": App("resnet", "A"), "bert": App("bert", "B")})
_SITE = ("slurm.conf", "nodes.conf", "gres.conf", "pal_lua.conf", "plugstack.conf", "topology.conf", "cgroup.conf")


def written(name: str, data: bytes) -> Path:
    path = HOME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o640)
    return path


def parted(data: bytes) -> dict[str, bytes]:
    """By the lines `== NAME`; what stands before them has no name."""
    first, *rest = (b"\n" + data).split(b"\n== ")
    named = {part.partition(b"\n")[0].decode("ascii", "replace"): part.partition(b"\n")[2] for part in rest}
    return {"": first[1:]} | named


def traces(data: bytes) -> None:
    files = parted(data)
    trace, table = written("trace", files[""]), written("throughputs.json", files.get("throughputs", b"{}"))
    every((
        lambda: read_trace(trace), lambda: read_trace(trace, options=Options(throughputs=table, limit_factor=2.0)),
        lambda: read_throughputs(table), lambda: read_pairs(table),
    ))  # fmt: skip


def tables(data: bytes) -> None:
    path = written("table.csv", data)

    def placed() -> None:
        found = placed_scores(str(path), _APPS)
        assert all(score > 0 for row in found.values() for score in row.values())

    every((
        lambda: read_scores(data, "file", ("A", "B"), NOW), placed, lambda: profiles.read_scores(path, 2, 1),
        lambda: profiles.read_runs(path), lambda: parse_costs(f"{path}:*"), lambda: parse_costs(f"{path}:*@7"),
    ))  # fmt: skip


def documents(data: bytes) -> None:
    """A document of the spool, or a file of a job that its watcher left when it was killed: closed, it is whole."""
    found = read(data, NOW)
    if found.part is not None:
        samples_of(found.part, "digest", "c")
    written("spool/.job-7-n1-1-0000.jsonl.part", data)
    for path in salvage(HOME / "spool", "n1", NOW):
        said = read(path.read_bytes(), NOW).defects
        assert not any("torn: the last line has no end" in defect.what for defect in said)
        path.unlink()


def measured(data: bytes) -> None:
    """What jobs, programs and other tools say of GPUs."""
    context = importers.Context((_DEVICE,), "n1", NOW)
    parse(data)
    every(lambda name=name: importers.bring_in(name, data, context) for name in importers.names())  # type: ignore[misc]
    every((lambda: command._told(data, 1.0),))
    for name in ("cgroup", "stat"):
        written(f"proc/7/{name}", data)
        written("proc/stat", data)
    job_of(7, HOME / "proc"), began(7, HOME / "proc"), file_system(2049, HOME / "proc/stat")


def simulated(data: bytes) -> None:
    """What the simulator is given, beside traces: policies and grids; clusters, costs and recipes by a few words."""
    path, text = written("grid.yaml", data), data.decode("utf-8", "replace")

    def swept() -> None:
        sweep = read_sweep(path)
        kept, run = KeptRuns(sweep, HOME / "kept"), sweep.runs()[0]
        kept.keep(run, {"jobs": 1.0})
        assert kept.done([run]) == {run} and kept.figures(run) == {"jobs": 1.0}
        (HOME / "kept" / "sweep").unlink()

    line = text.partition("\n")[0]
    every((
        lambda: read_policy(str(path)), swept, lambda: parse_uplinks(line), lambda: parse_recipe(line),
        lambda: parse_cluster(line) if len(line) < 20 else None,  # a large one takes its time
    ))  # fmt: skip


def site(data: bytes) -> None:
    """A site's own files, as `palctl doctor`, `slots` and `topology` read them."""
    files = parted(data)
    for name in _SITE:
        written(f"site/etc/slurm/{name}", files.get(name, b""))
    written("site/etc/passwd", files.get("passwd", b"")), written("site/etc/group", files.get("passwd", b""))
    written("site/usr/lib/systemd/system/pald.service", files.get("unit", b"User=pal\n"))
    printed = slurm.Printed(files.get("running", b""))
    text = {name: files.get(name, b"").decode("utf-8", "replace") for name in (*_SITE, "topology.yaml")}

    def network(name: str) -> None:
        switches = read_topology_file(Path(name), text[name])
        shown = topology_of(switches)
        faults(shown, ["n1"]), dropped(switches, shown.switches)

    every((
        lambda: examine(Site(HOME / "site", slurm_conf="/etc/slurm/slurm.conf", commands=printed)),
        lambda: linked_groups(read_gres_conf(text["gres.conf"])), lambda: network("topology.conf"),
        lambda: network("topology.yaml"), lambda: setup_of(str(HOME / "site/etc/slurm/slurm.conf"), "26.05"),
    ))  # fmt: skip


def bench(data: bytes) -> None:
    """Scripts of the drawn worlds, which say themselves again without loss; palwork's checkpoint."""
    from palwork_lib.saving import Checkpoint

    began_at, _ = Checkpoint(written("checkpoint", data), 0, 1).enter(from_zero=False)
    assert began_at >= 0
    script = read_script(data.decode("utf-8", "replace"))
    assert read_script(str(script)) == script


READERS: Mapping[str, Reader] = {
    "traces": traces,
    "tables": tables,
    "documents": documents,
    "measured": measured,
    "pal.yaml": lambda data: config.load(written("pal.yaml", data)),
    "simulated": simulated,
    "site": site,
    "words": slurm.words,
    "queue": slurm.queue,
    "answers": slurm.answers,
    "state": slurm.state,
    "bench": bench,
}


def kept(name: str) -> list[bytes]:
    """Its corpus."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
