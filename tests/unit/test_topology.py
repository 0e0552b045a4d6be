"""Trees, blocks and rings become racks and levels above; what is wrong with them is named and costs nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from pal_slurm.model import App, Knowledge, Shape, Tier, homogeneous, neutral_scores
from pal_slurm.policy import Floor
from pal_slurm.policy.seams import placements
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.slurm.commands.cluster import read_topology
from pal_slurm.slurm.nodes import NodeRecord, SiteWords, to_cluster
from pal_slurm.slurm.topology import Switch, faults, topology_of
from pal_slurm.slurm.topology_file import dropped, read_topology_file
from tests.builders import waiting
from tests.unit.test_palctl_history import write_command

EIGHT = tuple(f"n{i}" for i in range(1, 9))
TREE = """
SwitchName=core Switches=s[1-2]
SwitchName=s1 Switches=l[1-2]  # a spine
SwitchName=s2 Switches=l3,l4
SwitchName=l1 Nodes=n[1-2]
switchname=l2 nodes=n[3-4] LinkSpeed=1
SwitchName=l3 \\
  Nodes=n[5-6]
SwitchName=l4 Nodes=n[7-8]
"""
BLOCKS = "\n".join(f"BlockName=b{i} Nodes=n[{2 * i - 1}-{2 * i}]" for i in range(1, 5)) + "\nBlockSizes=2,4\n"
YAML = """
- topology: odd
  flat: true
- topology: even
  cluster_default: true
  tree:
    switches:
      - {switch: core, children: "s[1-2]"}
      - {switch: s1, children: "l[1-2]"}
      - {switch: s2, children: "l[3-4]"}
      - {switch: l1, nodes: "n[1-2]"}
      - {switch: l2, nodes: "n[3-4]"}
      - {switch: l3, nodes: "n[5-6]"}
      - {switch: l4, nodes: "n[7-8]"}
"""
SHOWN = """
SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=l3 Level=0 LinkSpeed=1 Nodes=n[5-6]
SwitchName=l4 Level=0 LinkSpeed=1 Nodes=n[7-8]
SwitchName=s1 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]
SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[5-8] Switches=l[3-4]
SwitchName=core Level=2 LinkSpeed=1 Nodes=n[1-8] Switches=s[1-2]
"""
SHOWN_BLOCKS = """
BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2
BlockName=b3 BlockIndex=2 Nodes=n[5-6] BlockSize=2
BlockName=b4 BlockIndex=3 Nodes=n[7-8] BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=4 Nodes=n[1-4] BlockSize=4
AggregatedBlock=b[3-4] BlockIndex=5 Nodes=n[5-8] BlockSize=4
"""


def places(text: str, names: tuple[str, ...] = EIGHT) -> list[list[int]]:
    site = SiteWords(levels=read_topology(text).levels)
    cluster = to_cluster([NodeRecord(name, "IDLE", gres="gpu:g0:1") for name in names], [], site=site)
    return [cluster.rack.tolist(), *(level.tolist() for level in cluster.above)]


@pytest.mark.parametrize("shown", [SHOWN, SHOWN_BLOCKS], ids=["tree", "block"])
def test_racks_are_the_lowest_switches_or_blocks_and_the_levels_above_are_kept(shown: str) -> None:
    assert places(shown) == [[0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 1, 1, 1]]
    assert faults(read_topology(shown), EIGHT) == (
        []
        if "core" in shown
        else ["no switch reaches all nodes: Slurm gives no job nodes of both sides, whatever is free"]
    )


def test_rings_are_racks() -> None:
    assert places("RingName=a Nodes=n[1-4] RingSize=4\nRingName=b Nodes=n[5-8] RingSize=4") == [[0] * 4 + [1] * 4]


def test_a_leaf_right_below_the_core_is_a_group_of_its_own() -> None:
    shown = """
SwitchName=l1 Level=0 Nodes=n[1-4]
SwitchName=l2 Level=0 Nodes=n[5-6]
SwitchName=l3 Level=0 Nodes=n[7-8]
SwitchName=a Level=1 Nodes=n[5-8] Switches=l[2-3]
SwitchName=core Level=2 Nodes=n[1-8] Switches=l1,a
"""
    assert places(shown) == [[0, 0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]]


def test_a_node_of_two_leaves_stays_in_the_first_and_nodes_of_none_are_a_rack_and_both_are_named() -> None:
    shown = "SwitchName=l1 Level=0 Nodes=n[1-3]\nSwitchName=l2 Level=0 Nodes=n[3-5]\n"
    assert places(shown) == [[0, 0, 0, 1, 1, 2, 2, 2]]
    said = faults(read_topology(shown), EIGHT)
    assert said[0].startswith("n3: in several switches") and said[1].startswith("n[6-8]: in no switch")
    assert said[2].startswith("no switch reaches all nodes") and len(said) == 3


@pytest.mark.parametrize(
    "shown",
    ["", "SwitchName=all Level=0 Nodes=n[1-8]", "SwitchName=x Level=0 Nodes=n[1-", "SwitchName=a Level=7 Nodes=n[1-8]"],
)
def test_what_tells_no_racks_leaves_all_nodes_one_rack(shown: str) -> None:
    assert places(shown) == [[0] * 8]


def test_a_level_that_is_missing_between_others_is_named() -> None:
    switches = [Switch("l1", 0, ("n1",)), Switch("l2", 0, ("n2",)), Switch("core", 2, ("n1", "n2"))]
    assert faults(topology_of(switches), ("n1", "n2")) == [
        "no switch of level 1 between others: has Slurm dropped a level?"
    ]


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [("topology.conf", TREE, SHOWN), ("topology.conf", BLOCKS, SHOWN_BLOCKS), ("topology.yaml", YAML, SHOWN)],
)
def test_a_file_is_read_as_slurm_reads_it(name: str, text: str, shown: str) -> None:
    written, told = read_topology_file(Path(name), text), read_topology(shown)
    assert {(s.name, s.level, s.nodes) for s in written} == {(s.name, s.level, s.nodes) for s in told.switches}
    assert dropped(written, told.switches) == []


def test_levels_of_the_file_that_slurm_does_not_tell_are_named() -> None:
    leaves = read_topology("\n".join(SHOWN.splitlines()[:5])).switches
    assert dropped(read_topology_file(Path("topology.conf"), TREE), leaves) == [
        "s[1-2]: level 1 of the file that slurmctld does not tell: is it the file in use?",
        "core: level 2 of the file that slurmctld does not tell: is it the file in use?",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.conf", "SwitchName=a Switches=b\nSwitchName=b Switches=a", "line 2: a loop, a > b > a"),
        ("t.conf", "SwitchName=a Switches=a", "line 1: a loop, a > a"),
        ("t.conf", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2: 'a' is named twice"),
        ("t.conf", "SwitchName=a Switches=z", "line 1: there is no switch 'z'"),
        ("t.conf", "SwitchName=a Nodse=n1", "line 1: 'Nodse=n1' is no"),
        (
            "t.conf",
            "SwitchName=l Nodes=n1\nSwitchName=a Switches=l\nSwitchName=b Switches=l",
            "line 3: l is below a too",
        ),
        ("t.conf", "BlockName=b Nodes=n1\nBlockSizes=two", "line 2: BlockSizes are whole numbers"),
        ("t.yaml", "just words", "t.yaml is no topology.yaml"),
        ("t.yaml", "[]", "t.yaml is no topology.yaml"),
        ("t.yaml", "- {topology: x, tree: {switches: [{switch: 3}]}}", "t.yaml is no topology.yaml"),
        ("t.yaml", "- {topology: x, tree: {switches: [{switch: a, children: a}]}}", "t.yaml, x: a loop, a > a"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(name: str, text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_topology_file(Path(name), text)
    assert said in str(refused.value)


def test_beyond_a_rack_nodes_below_one_switch_are_preferred() -> None:
    cluster = parse_cluster("8x2/1/4")
    assert cluster.rack.tolist() == list(range(8)) and [a.tolist() for a in cluster.above] == [[0] * 4 + [1] * 4]
    free = cluster.gpu_exists.copy()
    free[0:3] = free[4] = False  # one node left of the first group, three of the second
    floor = Floor(replace(cluster, gpu_free=free), Knowledge(neutral_scores(cluster)))
    app = App("x", "A", comm=(1.0, 1.0, 1.2, 1.7))
    for name in ("lv", "thrift", "packed"):
        where = placements.get(name).place(waiting(1, 4, shape=Shape(gpus=4, min_nodes=2, max_nodes=2)), app, floor)
        assert where is not None and set(where.nodes) <= {"n6", "n7", "n8"}, name
        assert cluster.tier_of([cluster.node_index[n] for n in where.nodes], 4) is Tier.CLUSTER


def test_sizes_of_groups_that_are_no_tree_are_refused() -> None:
    for text in ("8x2/4/2", "8x2/2/3", "8x2/0", "8x2/2/", "8x2/2/2"):
        with pytest.raises(BadInput):
            parse_cluster(text)
    assert homogeneous(4, 1).above == () and np.array_equal(homogeneous(4, 1, group_sizes=(2,)).above[0], [0, 0, 1, 1])


def test_palctl_topology_draws_the_tree_and_says_what_is_missing(tmp_path: Path) -> None:
    nodes = "\n".join(f"NodeName={name} State=IDLE CPUTot=8 RealMemory=1000 Gres=gpu:g0:1,gpu:g1:1" for name in EIGHT)
    (tmp_path / "nodes").write_text(nodes + "\nNodeName=n9 State=IDLE Gres=gpu:g0:1\n")
    (tmp_path / "tree").write_text(SHOWN)
    (tmp_path / "topology.conf").write_text(TREE + "SwitchName=l5 Nodes=n9\n")
    echo = '"show hostnames "*) echo "${line#show hostnames }";;'
    show = f'{echo} "show node") cat {tmp_path}/nodes;; "show topology") cat {tmp_path}/tree;;'
    write_command(tmp_path / "bin" / "scontrol", f'while read -r line; do case "$line" in {show} esac; done')
    pal = tmp_path / "pal.yaml"
    pal.write_text(f"state_dir: {tmp_path}\ncluster: {{backend: cli, bin_dir: {tmp_path}/bin}}\n")
    done = CliRunner().invoke(palctl, ["--config", str(pal), "topology"])
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "core: 8 nodes, 16 GPUs",
        "  s1: 4 nodes, 8 GPUs",
        "    l1: n[1-2], 4 GPUs",
        "    l2: n[3-4], 4 GPUs",
        "  s2: 4 nodes, 8 GPUs",
        "    l3: n[5-6], 4 GPUs",
        "    l4: n[7-8], 4 GPUs",
        "note n9: in no switch; such nodes count as one rack of their own",
        "note no application of pal.yaml says what distance costs it (apps: NAME: comm): racks change nothing",
    ]
    (tmp_path / "nodes").write_text(nodes + "\n")
    pal.write_text(pal.read_text() + "apps: {bert: {class: A, comm: {rack: 1.1, cluster: 1.5}}}\n")
    fine = CliRunner().invoke(palctl, ["--config", str(pal), "topology"])
    assert fine.exit_code == 0 and "note" not in fine.output
    some = CliRunner().invoke(palctl, ["--config", str(pal), "topology", "-o", "name,gpus"]).output.splitlines()
    assert some[0].split() == ["NAME", "GPUS"] and sorted(some[1].split()) == ["4", "l1"] and len(some) == 8
    told = json.loads(CliRunner().invoke(palctl, ["--config", str(pal), "topology", "--json"]).output)
    assert {"name": "s1", "level": 1, "nodes": ["n1", "n2", "n3", "n4"], "gpus": 8} in told["switches"]
    words = ["--config", str(pal), "topology", "--file", str(tmp_path / "topology.conf")]
    assert "note l5: some switches of the file that slurmctld does not tell" in CliRunner().invoke(palctl, words).output
