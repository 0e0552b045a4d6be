"""Racks. In: a Site. Out: advice: what topology.conf lacks, or why slurmctld would not take it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site
from pal_slurm.errors import BadInput
from pal_slurm.slurm.gres import gpus_in
from pal_slurm.slurm.nodeset import fold
from pal_slurm.slurm.topology import ONE_SWITCH, faults, topology_of
from pal_slurm.slurm.topology_file import read_topology_file

STEP = 35
TITLE = "topology"
THEN = "scontrol reconfigure; palctl topology draws it"


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None:
        return
    gpu_nodes = [node.name for node in conf.nodes if gpus_in(node.gres)]
    paths = [path for path in map(site.beside, ("topology.yaml", "topology.conf")) if site.there(path)]
    plugin = conf.value("TopologyPlugin").lower().rpartition("/")[2]
    if plugin not in ("tree", "block") and not (paths and paths[0].endswith(".yaml")):
        yield note("no racks are known: all nodes count as one rack", "TopologyPlugin=topology/tree", conf.file)
        return
    if not paths:
        line = f"SwitchName=rack1 Nodes={fold(gpu_nodes) or 'n[1-8]'}"
        path = site.beside("topology.conf")
        yield mend(f"TopologyPlugin is topology/{plugin}, and there is no topology.conf", line, path, THEN)
        return
    try:
        topology = topology_of(read_topology_file(Path(paths[0]), site.text(paths[0]) or ""))
    except BadInput as error:
        yield mend(f"{error}", f"palctl topology --file {paths[0]}", paths[0], THEN)
        return
    said = faults(topology, gpu_nodes)
    if ONE_SWITCH in said:  # many a site has one rack
        yield note(ONE_SWITCH)
    for fault in (fault for fault in said if fault != ONE_SWITCH):
        yield mend(fault, "SwitchName=RACK Nodes=LIST    # each node in one", paths[0], THEN)
    if not said:
        yield ok(f"{sum(not s.level for s in topology.switches)} racks hold all {len(gpu_nodes)} nodes with GPUs")
