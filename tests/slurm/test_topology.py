"""What real slurmctlds tell of their topology, tree and block and yaml, is what placements see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.slurm.commands.backend import CliSlurm
from pal_slurm.slurm.commands.cluster import read_topology
from pal_slurm.slurm.topology import faults
from pal_slurm.slurm.topology_file import dropped, read_topology_file
from tests.slurm.minicluster import Minicluster
from tests.unit.test_topology import BLOCKS, EIGHT, TREE, YAML


def seen(cluster: Minicluster, files: dict[str, str]) -> list[list[int]]:
    """The levels of the cluster under this topology; what its file says is what slurmctld tells."""
    for name in ("topology.conf", "topology.yaml"):
        (cluster.etc / name).unlink(missing_ok=True)
    for name, text in files.items():
        (cluster.etc / name).write_text(text)
    cluster.restart()
    told = read_topology(cluster.client("scontrol", "show", "topology"))
    for name, text in files.items():
        if name.startswith("topology"):
            written = read_topology_file(Path(name), text)
            assert {(s.name, s.level, s.nodes) for s in told.switches} >= {(s.name, s.level, s.nodes) for s in written}
            assert dropped(written, told.switches) == []
    model = CliSlurm(cluster.bin).snapshot().cluster
    return [model.rack.tolist(), *(level.tolist() for level in model.above)]


@pytest.mark.slurm("26.05", "24.11", "22.05")
def test_levels_of_trees_and_blocks_come_from_slurmctld(
    release: str, make_minicluster: Callable[..., Minicluster]
) -> None:
    cluster = make_minicluster("--nodes", "8", "--gpus", "1")
    conf = (cluster.etc / "slurm.conf").read_text()
    two_levels = [[0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 1, 1, 1]]
    assert seen(cluster, {"topology.conf": TREE}) == two_levels
    odd = "SwitchName=l1 Nodes=n[1-3]\nSwitchName=l2 Nodes=n[3-5]\nSwitchName=core Switches=l[1-2]\n"
    assert seen(cluster, {"topology.conf": odd}) == [[0, 0, 0, 1, 1, 2, 2, 2]]
    said = faults(read_topology(cluster.client("scontrol", "show", "topology")), EIGHT)
    assert [sentence.partition(":")[0] for sentence in said] == ["n3", "n[6-8]"]
    if release != "22.05":  # it has no blocks
        blocks = conf.replace("topology/tree", "topology/block")
        assert seen(cluster, {"slurm.conf": blocks, "topology.conf": BLOCKS}) == two_levels
    if release == "26.05":
        assert seen(cluster, {"slurm.conf": conf, "topology.yaml": YAML}) == two_levels
