"""gres.conf in, slots out; what a running cluster lacks."""

from __future__ import annotations

import pytest

from pal_slurm.errors import BadInput
from pal_slurm.slots.check import Level, check_slots
from pal_slurm.slots.emit import emit
from pal_slurm.slots.gres_conf import read_gres_conf
from pal_slurm.slurm.nodes import NodeRecord

RIGHT = {"SchedulerParameters": "disable_job_shrink,bf_continue", "JobSubmitPlugins": "lua", "GresTypes": "gpu"}


def node(name: str, gres: str) -> NodeRecord:
    return NodeRecord(name, "IDLE", gres=gres)


def test_one_line_per_device_in_minor_order_with_cores_and_links_kept() -> None:
    conf = read_gres_conf(
        "Name=gpu Type=a100 File=/dev/nvidia1 Cores=8-15 Links=2,-1\n"
        "Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-7 Links=-1,2  # the first\n"
        "Name=shard Count=8\n"
    )
    made = emit([node("n1", "gpu:a100:2(S:0-1)"), node("n2", "gpu:a100:2(S:0-1)"), node("login", "")], conf)
    assert made.gres_conf == (
        "AutoDetect=off",
        "Name=shard Count=8",
        "NodeName=n[1-2] Name=gpu Type=g0 File=/dev/nvidia0 Cores=0-7 Links=-1,2",
        "NodeName=n[1-2] Name=gpu Type=g1 File=/dev/nvidia1 Cores=8-15 Links=2,-1",
    )
    assert made.slurm_conf[1].startswith("NodeName=n[1-2] Gres=gpu:g0:1,gpu:g1:1 Feature=a100")
    assert made.models == ("a100",)


def test_brackets_and_node_names_of_gres_conf_are_understood() -> None:
    conf = read_gres_conf("NodeName=n[1-2] Name=gpu File=/dev/nvidia[0-3]\nNodeName=n3 Name=gpu File=/dev/nvidia0")
    made = emit([node("n1", "gpu:4"), node("n2", "gpu:4"), node("n3", "gpu:1")], conf)
    assert [line for line in made.gres_conf if "n3" in line] == ["NodeName=n3 Name=gpu Type=g0 File=/dev/nvidia0"]
    assert sum("n[1-2]" in line for line in made.gres_conf) == 4


def test_autodetect_clashes_with_types_and_is_named() -> None:
    made = emit([node("n1", "gpu:h100:8")], read_gres_conf("AutoDetect=nvml"))
    assert "AutoDetect=nvml" in made.remarks[0]
    assert "/dev/nvidia0 and on were assumed" in made.remarks[1]
    assert len(made.gres_conf) == 1 + 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Name=gpu Type=a100", "line 1: a GPU line needs File="),
        ("# fine\nName=gpu Fiel=/dev/nvidia0", "line 2: 'Fiel=/dev/nvidia0'"),
        ("Name=gpu File=/dev/nvidia[0-999]", "names 1000 devices"),
        ("Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia[0-1]", "/dev/nvidia0 stands in two lines"),
    ],
)
def test_a_wrong_gres_conf_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("[", r"\[")):
        read_gres_conf(text)


def test_a_cluster_that_is_set_up_right_has_nothing_wrong() -> None:
    found = check_slots([node("n1", "gpu:g0:1,gpu:g1:1"), node("n2", "gpu:g0:1,gpu:g1:1")], RIGHT, {})
    assert [f.level for f in found] == [Level.FINE]


def test_what_slurm_conf_lacks_is_named() -> None:
    found = check_slots([node("n1", "gpu:g0:1")], {"SchedulerParameters": "bf_continue"}, {})
    wrong = " ".join(f.said for f in found if f.level is Level.WRONG)
    assert all(word in wrong for word in ("disable_job_shrink", "lua", "GresTypes"))


def test_limits_and_bills_on_a_type_speak_for_node_precision() -> None:
    settings = {**RIGHT, "AccountingStorageTRES": "cpu,gres/gpu,gres/gpu:a100"}
    found = check_slots([node("n1", "gpu:a100:4")], settings, {"gpu": "CPU=1.0,GRES/gpu:a100=2.0"})
    notes = [f.said for f in found if f.level is Level.NOTE]
    assert sum("keep the types" in said for said in notes) == 2
    slots = check_slots([node("n1", "gpu:g0:1")], {**RIGHT, "AccountingStorageTRES": "gres/gpu:g0"}, {})
    assert [f.level for f in slots] == [Level.FINE]


def test_slots_out_of_order_or_on_some_nodes_only_are_wrong() -> None:
    found = check_slots([node("n1", "gpu:g1:1,gpu:g0:1"), node("n2", "gpu:g0:1,gpu:g1:1")], RIGHT, {})
    assert [f.level for f in found] == [Level.WRONG, Level.FINE, Level.WRONG]
