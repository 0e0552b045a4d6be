"""Parts of GPUs in Slurm's words: who could be asked for as one, what nodes have, what an edit must not change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pal_slurm.model import Job, Outcome, Pin, Request
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.edits.judge import judge
from pal_slurm.slurm.edits.rewrite import CantEdit, Rewrite, rewrite
from pal_slurm.slurm.nodes import NodeRecord, to_cluster
from pal_slurm.slurm.records import JobRecord, to_job

MARK = "pal1{b=2000000000;n=gres/gpu:1;h=1}"


def job(**fields: object) -> Job:
    """As it was submitted, where nothing else is said."""
    keys = {"n": "per_node", "j": "per_job", "t": "per_task"}
    asks = {key: fields[name] for key, name in keys.items() if fields.get(name) and "shard" not in str(fields[name])}
    texts = ";".join(f"{key}={text}" for key, text in asks.items())
    mark = MARK.replace("n=gres/gpu:1", texts) if texts else MARK
    made = {"per_node": "gres/gpu:1", "num_nodes": 1, "max_nodes": 1, "mem_per_node_mb": 100, "admin_comment": mark}
    made |= {"comment": "app:net pal:share", "eligible": 2_000_000_000, **fields}
    return to_job(JobRecord(7, 1_800_000_000, "PENDING", "ann", **made))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"per_node": "", "per_job": "gres/gpu:1"},
        {"per_node": "", "per_task": "gres/gpu=1", "ntasks": 1},
        {"per_node": "", "per_task": "cpu=2,gres/gpu=1", "ntasks": 1, "cpus": 2},
        {"ntasks": 4, "cpus": 4},
        {"per_node": "gres:gpu:1"},
    ],
)
def test_one_gpu_on_one_node_could_be_a_part(fields: dict[str, object]) -> None:
    assert job(**fields).by_part and job(**fields).shares


@pytest.mark.parametrize(
    "fields",
    [
        {"per_node": "gres/gpu:2"}, {"num_nodes": 2, "max_nodes": 2}, {"max_nodes": 2}, {"per_node": "gres/gpu:a100:1"},
        {"per_node": "gres/gpu:g1:1"}, {"per_node": "gres/gpu:1,gres/nic:1"}, {"mem_per_gpu": "gres/gpu:4096"},
        {"cpus_per_gpu": "gres/gpu:2"}, {"batch": 0}, {"het_id": 7}, {"per_node": "", "per_socket": "gres/gpu:1"},
        {"per_node": "", "per_task": "gres/gpu=1", "ntasks": 2}, {"per_node": "", "per_task": "gres/gpu=1,license=1"},
        {"per_node": "gres/shard:1"}, {"per_node": "gres/shard:g1:1"}, {"per_node": ""},
        {"per_node": "", "per_job": "gres/gpu:1", "admin_comment": MARK},  # edited since
        {"admin_comment": MARK.replace("h=1", "h=1;i=1")}, {"admin_comment": MARK.replace("h=1", "h=1;r=1")},
    ],
)  # fmt: skip
def test_what_could_not_be_a_part_and_stay_what_it_is(fields: dict[str, object]) -> None:
    assert not job(**fields).shares


@pytest.mark.parametrize(
    "fields",
    [
        {"comment": "app:net"}, {"comment": "app:net pal:share pal:off"}, {"comment": None}, {"admin_comment": ""},
        {"admin_comment": MARK.replace(";h=1", "")}, {"array_limit": 2}, {"exclusive": True}, {"reservation": "r"},
        {"comment": "app:net pal:shared"}, {"comment": "app:net PAL:SHARE"},
    ],
)  # fmt: skip
def test_both_the_comment_and_the_mark_say_that_it_shares(fields: dict[str, object]) -> None:
    assert not job(**fields).shares


def test_a_pin_to_a_part_is_known_as_ours_and_keeps_what_the_job_asked_for() -> None:
    pinned = job(per_node="gres/shard:g2:1", required_nodes="n1")
    assert (pinned.shard, pinned.slots, pinned.gpu_job, pinned.shares) == (True, (2,), True, True)
    assert pinned.shape == job().shape
    assert pinned.asks_for(("n1",), (2,), shard=True)
    assert not pinned.asks_for(("n1",), (2,)) and not pinned.asks_for(("n1",), (1,), shard=True)


@pytest.mark.parametrize("release", ["22.05.8", "23.02.6", "23.11.4"])
def test_older_slurms_are_not_asked(release: str) -> None:
    refused = rewrite(Pin(7, nodes=("n1",), slots=(2,), shard=True), job(), capabilities_of(release))
    assert isinstance(refused, CantEdit) and release in refused.why


@pytest.mark.parametrize(("release", "word"), [("23.11.5", "gres:shard:g2:1"), ("24.11.0", "gres/shard:g2:1")])
def test_a_part_is_asked_for_per_node_whatever_the_job_said(release: str, word: str) -> None:
    edit = Pin(7, nodes=("n1",), slots=(2,), shard=True)
    asked = rewrite(edit, job(per_node="", per_job="gres/gpu:1"), capabilities_of(release))
    assert isinstance(asked, Rewrite)
    assert dict(asked.texts) == {"nodes": "n1", "tres_per_node": word, "tres_per_job": ""}
    for wrong in (replace(edit, slots=(1, 2)), replace(edit, slots=()), replace(edit, nodes=("n1", "n2"))):
        assert isinstance(rewrite(wrong, job(), capabilities_of(release)), CantEdit)


def test_an_edit_that_gave_the_job_other_memory_is_none() -> None:
    edit = Pin(7, nodes=("n1",), slots=(2,), original=Request(per_node="gres/gpu:1"), shard=True)
    asked = Rewrite({"nodes": "n1", "tres_per_node": "gres/shard:g2:1"})
    now = 1_900_000_000
    after = job(per_node="gres/shard:g2:1", required_nodes="n1", eligible=now)
    assert judge(edit, asked, job(), after, "", now).outcome is Outcome.DONE
    more = job(per_node="gres/shard:g2:1", required_nodes="n1", eligible=now, mem_per_node_mb=900)
    result = judge(edit, asked, job(), more, "", now)
    assert result.outcome is Outcome.PARTIAL and "memory" in result.said


def test_nodes_tell_how_many_parts_each_gpu_has_and_how_many_are_free() -> None:
    gpus, parts = ",".join(f"gpu:g{i}:1" for i in range(4)), ",".join(f"shard:g{i}:2" for i in range(4))
    used = (
        "gpu:g0:1(IDX:0),gpu:g1:0(IDX:N/A),gpu:g2:0(IDX:N/A),gpu:g3:0(IDX:N/A),"
        "shard:g0:0(-/2),shard:g1:1(1/2),shard:g2:2(2/2),shard:g3:0(0/2)"
    )
    nodes = [NodeRecord("n1", "MIXED", gres=f"{gpus},{parts}", gres_used=used), NodeRecord("n2", "IDLE", gres=gpus)]
    cluster = to_cluster(nodes, [])
    assert cluster.parts is not None and cluster.parts_free is not None
    assert cluster.parts.tolist() == [[2, 2, 2, 2], [0, 0, 0, 0]]
    assert cluster.parts_free.tolist() == [[0, 1, 0, 2], [0, 0, 0, 0]]
    assert cluster.gpu_free[0].tolist() == [False, False, False, True]
    assert to_cluster(nodes[1:], []).parts is None
