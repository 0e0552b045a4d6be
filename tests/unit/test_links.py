"""GPUs of a node that are linked directly: `Links=` of a gres.conf to groups, to the cluster, to palctl topology."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import load
from pal_slurm.daemon.connect import connect
from pal_slurm.errors import BadInput
from pal_slurm.slots.gres_conf import read_gres_conf
from pal_slurm.slots.links import linked_groups, links_in, members
from pal_slurm.slurm.nodes import NodeRecord, SiteWords, to_cluster
from tests.unit.test_palctl_history import write_command

PAIRS = ("-1,4,0,0", "4,-1,0,0", "0,0,-1,4", "0,0,4,-1")
# Eight GPUs with links to four others each: two fours in which each has a link to each, and one across.
MESH = [
    ",".join("-1" if a == b else "2" if a // 4 == b // 4 or a % 4 == b % 4 else "0" for b in range(8)) for a in range(8)
]


def conf(links: tuple[str, ...] | list[str], node: str = "NodeName=n[1-2] ") -> str:
    return "\n".join(f"{node}Name=gpu Type=g{i} File=/dev/nvidia{i} Links={each}" for i, each in enumerate(links))


@pytest.mark.parametrize(
    ("links", "groups"),
    [
        (PAIRS, [[0, 1], [2, 3]]),
        (("-1,18,18", "18,-1,18", "18,18,-1"), [[0, 1, 2]]),
        (("-1,0", "0,-1"), [[0], [1]]),
        (("-1,1,0,1", "1,-1,1,0", "0,1,-1,1", "1,0,1,-1"), [[0, 1], [2, 3]]),  # a ring: 0 and 2 have no link
        (("-1,0,2,0", "0,-1,0,2", "2,0,-1,0", "0,2,0,-1"), [[0, 2], [1, 3]]),
        (MESH, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (("-1",), [[0]]),
    ],
)
def test_in_a_group_each_gpu_has_a_link_to_each_other(links: tuple[str, ...], groups: list[list[int]]) -> None:
    found = linked_groups(read_gres_conf(conf(links)))
    assert set(found) == {"n1", "n2"} and members(found["n1"]) == groups


def test_the_minus_one_tells_which_number_is_whose() -> None:
    """Slurm numbers devices by their place on the bus, which need not be the order of their minor numbers."""
    swapped = ("0,0,-1,4", "4,-1,0,0", "-1,4,0,0", "0,0,4,-1")
    assert members(linked_groups(read_gres_conf(conf(swapped)))["n1"]) == [[0, 3], [1, 2]]


def test_nodes_without_links_tell_nothing() -> None:
    text = conf(PAIRS) + "\nNodeName=n3 Name=gpu File=/dev/nvidia[0-3]\nName=gpu File=/dev/nvidia0\n"
    assert set(linked_groups(read_gres_conf(text))) == {"n1", "n2"} and links_in("") == {}


@pytest.mark.parametrize(
    ("links", "said"),
    [
        (("-1,4,0", "4,-1,0,0", "0,0,-1,4", "0,0,4,-1"), "line 1, /dev/nvidia0: 3 numbers for 4 devices"),
        (("-1,4", "4,-1", "0,0"), "line 1, /dev/nvidia0: 2 numbers for 3 devices"),
        (("-1,4", "four,-1"), "line 2, /dev/nvidia1: 'four' is no number of links"),
        (("-1,-2", "4,-1"), "line 1, /dev/nvidia0: '-2' is no number of links"),
        (("-1,4,", "4,-1,"), "line 1, /dev/nvidia0: '' is no number of links"),
        (("-1,1e3", "4,-1"), "line 1, /dev/nvidia0: '1e3' is no number of links"),
        (("-1,\u0664", "4,-1"), "line 1, /dev/nvidia0: '\u0664' is no number of links"),
        (("-1,9999", "9999,-1"), "line 1, /dev/nvidia0: '9999' is no number of links"),
        (("-1,4", ""), "line 2, /dev/nvidia1: no Links=, and other devices of this node have it"),
        (("0,4", "4,-1"), "line 1, /dev/nvidia0: 0 times -1"),
        (("-1,-1", "4,-1"), "line 1, /dev/nvidia0: 2 times -1"),
        (("-1,4", "-1,4"), "line 2, /dev/nvidia1: -1 stands where that of /dev/nvidia0 does"),
        (("-1,4", "2,-1"), "line 2, /dev/nvidia1: 2 links to /dev/nvidia0, which says 4"),
    ],
)
def test_wrong_links_are_refused_with_their_line(links: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        linked_groups(read_gres_conf(conf(links), "gres.conf"))
    assert f"gres.conf, {said}" in str(refused.value)


def test_links_on_a_line_of_several_devices_are_refused() -> None:
    with pytest.raises(BadInput, match="line 1, /dev/nvidia0: Links= is of one device"):
        linked_groups(read_gres_conf("Name=gpu File=/dev/nvidia[0-1] Links=-1,4"))


def test_the_cluster_has_a_group_per_slot_and_what_does_not_fit_a_node_counts_as_linked() -> None:
    nodes = [
        NodeRecord("n1", "IDLE", gres="gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1"),
        NodeRecord("n2", "IDLE", gres="gpu:g0:1,gpu:g1:1"),
        NodeRecord("n3", "IDLE"),
        NodeRecord("n4", "IDLE", gres="gpu:g0:1,gpu:g1:1"),
    ]
    told = {"n1": (0, 0, 1, 1), "n2": (0, 0, 1, 1), "": (0, 1)}
    linked = to_cluster(nodes, [], site=SiteWords(linked=told)).linked
    assert linked is not None and linked.tolist() == [[0, 0, 1, 1], [0] * 4, [0] * 4, [0, 1, 0, 0]]
    assert to_cluster(nodes, []).linked is None
    assert to_cluster(nodes, [], site=SiteWords(linked={"": (0, 0)})).linked is None


def site(tmp_path: Path, text: str) -> Path:
    (tmp_path / "gres.conf").write_text(text)
    pal = tmp_path / "pal.yaml"
    words = f"backend: cli, bin_dir: {tmp_path}/bin, gres_conf: {tmp_path}/gres.conf"
    pal.write_text(f"state_dir: {tmp_path}\ncluster: {{{words}}}\n")
    return pal


def test_palctl_topology_shows_which_gpus_are_linked(tmp_path: Path) -> None:
    devices = ",".join(f"gpu:g{i}:1" for i in range(4))
    nodes = "\n".join(f"NodeName=n{i} State=IDLE CPUTot=8 RealMemory=1000 Gres={devices}" for i in (1, 2))
    (tmp_path / "nodes").write_text(f"{nodes}\nNodeName=n3 State=IDLE Gres=gpu:g0:1\n")
    echo = '"show hostnames "*) echo "${line#show hostnames }";;'
    show = f'{echo} "show node") cat {tmp_path}/nodes;;'
    write_command(tmp_path / "bin" / "scontrol", f'while read -r line; do case "$line" in {show} esac; done')
    pal = site(tmp_path, conf(PAIRS, "NodeName=n[1-3] "))
    told = CliRunner().invoke(palctl, ["--config", str(pal), "topology"]).output
    assert "n[1-2]: GPUs linked directly: 0-1, 2-3\n" in told
    assert "note n3: cluster.gres_conf tells links of 4 GPUs, Slurm knows 1; all count as linked" in told
    answer = json.loads(CliRunner().invoke(palctl, ["--config", str(pal), "topology", "--json"]).output)
    assert answer["linked"] == [{"nodes": ["n1", "n2"], "groups": [[0, 1], [2, 3]]}]
    site(tmp_path, conf(("-1,4", "four,-1")))
    refused = CliRunner().invoke(palctl, ["--config", str(pal), "topology"])
    assert refused.exit_code != 0 and "gres.conf, line 2, /dev/nvidia1: 'four'" in str(refused.exception)


def test_pald_takes_wrong_links_for_none_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pal = site(tmp_path, conf(("-1,4", "2,-1")))
    with caplog.at_level(logging.WARNING):
        connect(load(pal)).close()
    assert "line 2, /dev/nvidia1: 2 links to /dev/nvidia0" in caplog.text and "count as linked" in caplog.text
