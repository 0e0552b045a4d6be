"""GPUs of a node that are linked directly: `Links=` of a gres.conf to groups, to the cluster, to palctl topology."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import load
from pal_slurm.daemon.connect import connect
from pal_slurm.errors import BadInput
from pal_slurm.model import App, Knowledge, Speeds, Tier, homogeneous, neutral_scores
from pal_slurm.policy import Floor
from pal_slurm.policy.seams import placements
from pal_slurm.slots.gres_conf import read_gres_conf
from pal_slurm.slots.links import linked_groups, links_in, members
from pal_slurm.slurm.nodes import NodeRecord, SiteWords, to_cluster
from tests.builders import scores, waiting
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
    assert answer["faults"][-1].startswith("no application of pal.yaml says what GPUs without a link cost it")
    assert answer["linked"] == [{"nodes": ["n1", "n2"], "groups": [[0, 1], [2, 3]]}]
    site(tmp_path, conf(("-1,4", "four,-1")))
    refused = CliRunner().invoke(palctl, ["--config", str(pal), "topology"])
    assert refused.exit_code != 0 and "gres.conf, line 2, /dev/nvidia1: 'four'" in str(refused.exception)


def test_pald_takes_wrong_links_for_none_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pal = site(tmp_path, conf(("-1,4", "2,-1")))
    with caplog.at_level(logging.WARNING):
        connect(load(pal)).close()
    assert "line 2, /dev/nvidia1: 2 links to /dev/nvidia0" in caplog.text and "count as linked" in caplog.text


def test_the_equation_counts_what_gpus_of_a_node_without_a_link_cost() -> None:
    cluster = replace(homogeneous(2, 4), linked=np.array([[0, 0, 1, 1], [0, 0, 0, 0]]))
    app = App("x", "A", comm=(1.0, 1.125, 1.5, 2.0), unlinked=1.25)
    speeds = Speeds(cluster, neutral_scores(cluster))
    seen = {
        gpus: speeds.factors(app, gpus)[2:] for gpus in ((0,), (0, 1), (1, 2), (2, 3), (0, 1, 2, 3), (4, 6), (1, 5))
    }
    assert seen == {
        (0,): (1.0, Tier.GPU), (0, 1): (1.125, Tier.NODE), (1, 2): (1.25, Tier.NODE), (2, 3): (1.125, Tier.NODE),
        (0, 1, 2, 3): (1.25, Tier.NODE), (4, 6): (1.125, Tier.NODE), (1, 5): (1.5, Tier.RACK),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["lv", "thrift", "packed"])
@pytest.mark.parametrize(("unlinked", "slots"), [(1.0, (1, 2)), (1.05, (1, 2)), (1.5, (2, 3))])
def test_a_link_is_worth_a_slower_gpu_when_it_saves_more(name: str, unlinked: float, slots: tuple[int, ...]) -> None:
    """GPU 3 is 20 % slower than the others, and the only free one with a link to another."""
    free = np.array([[False, True, True, True]])
    cluster = replace(homogeneous(1, 4), linked=np.array([[0, 0, 1, 1]]), gpu_free=free)
    knowledge = Knowledge(scores(A=[[1.0, 1.0, 1.0, 1.2]]))
    app = App("x", "A", comm=(1.0, 1.0, 2.0, 2.0), unlinked=unlinked)
    where = placements.get(name).place(waiting(1, 2), app, Floor(cluster, knowledge))
    if name == "packed":  # sees no scores
        slots = (1, 2) if unlinked == 1.0 else (2, 3)
    assert where is not None and where.gpus == (slots,)


def test_where_slurm_takes_the_lowest_gpus_a_node_on_which_they_are_linked_is_chosen() -> None:
    linked = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
    free = np.array([[False, True, True, True], [True, True, False, False]])
    cluster = replace(homogeneous(2, 4), linked=linked, gpu_free=free, slots=False)
    app = App("x", "A", comm=(1.0, 1.0, 2.0, 2.0), unlinked=1.5)
    for name, node in (("lv", "n2"), ("thrift", "n2"), ("pm-first", "n2"), ("packed", "n2")):
        where = placements.get(name).place(waiting(1, 2), app, Floor(cluster, Knowledge(neutral_scores(cluster))))
        assert where is not None and where.nodes == (node,) and not where.exact, name


def test_pal_yaml_tells_what_missing_links_cost(tmp_path: Path) -> None:
    pal = site(tmp_path, conf(PAIRS))
    comm = "{node: 1.1, unlinked: 1.3, rack: 1.4, cluster: 1.5}"
    pal.write_text(pal.read_text() + f"apps: {{bert: {{class: A, comm: {comm}}}, lm: {{class: A}}}}\n")
    apps = load(pal).known_apps()
    assert apps.get("bert").unlinked == 1.3 and apps.get("lm").unlinked == 1.0
    CliRunner().invoke(palctl, ["--config", str(pal), "db", "upgrade"])
    told = json.loads(CliRunner().invoke(palctl, ["--config", str(pal), "apps", "--comm", "--json"]).output)
    rows = {row["app"]: (row["node"], row["unlinked"], row["comm"]["unlinked"], row["comm_source"]) for row in told}
    assert rows == {"bert": (1.1, 1.3, 1.3, "pal.yaml"), "lm": (1.0, 1.0, 1.0, "none")}
