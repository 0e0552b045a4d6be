"""Which fields an edit sets, form by form and release by release; the lines that go to scontrol."""

from __future__ import annotations

from typing import Any

import pytest

from pal_slurm.model import Edit, EditResult, Job, Lease, Outcome, Pin, Plain, Renew, Request, Shape, Unpin
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.commands.write import update_line
from pal_slurm.slurm.edits.prepare import Ready, by_id, prepare_all
from pal_slurm.slurm.edits.rewrite import CantEdit, Rewrite, rewrite
from pal_slurm.slurm.port import Capabilities
from tests.builders import waiting

OLD, NEW = capabilities_of("22.05.8"), capabilities_of("26.05.5")
NOW = 1_800_000_000


def job(request: Request, **more: Any) -> Job:
    return waiting(7, 2, **({"submit": NOW - 60, "eligible": NOW + 600, "request": request} | more))


def prepare(edit: Edit, of: Job, able: Capabilities = NEW, may_name_nodes: bool = True) -> EditResult | Ready:
    return prepare_all([edit], by_id([of]), able, may_name_nodes, NOW)[0]


def line(edit: Edit, of: Job, able: Capabilities) -> str:
    ready = prepare(edit, of, able)
    assert isinstance(ready, Ready), ready
    return update_line(ready)


def pin(of: Job, *nodes: str, slots: tuple[int, ...] | None = (1, 3)) -> Edit:
    return Pin(of.id, nodes=nodes, slots=slots, original=of.request)


PINS = [
    (NEW, Request(per_node="gres/gpu:2"), 1, "TresPerNode=gres/gpu:g1:1,gres/gpu:g3:1"),
    (NEW, Request(per_job="gres/gpu:2"), 1, "TresPerJob=gres/gpu:g1:1,gres/gpu:g3:1"),
    (NEW, Request(per_node="gres/nic:1,gres/gpu:2"), 1, "TresPerNode=gres/nic:1,gres/gpu:g1:1,gres/gpu:g3:1"),
    (OLD, Request(per_node="gres:gpu:2"), 1, "TresPerJob=gres:gpu:g1:1,gres:gpu:g3:1 TresPerNode="),
    (OLD, Request(per_job="gres:gpu:2"), 1, "TresPerNode=gres:gpu:g1:1,gres:gpu:g3:1 TresPerJob="),
]


@pytest.mark.parametrize(("able", "request_", "ntasks", "fields"), PINS)
def test_a_pin_of_one_node(able: Capabilities, request_: Request, ntasks: int, fields: str) -> None:
    of = job(request_, ntasks=ntasks)
    assert line(pin(of, "n5"), of, able) == f"update JobId=7 ReqNodeList=n5 {fields} StartTime=now"


@pytest.mark.parametrize("able", [OLD, NEW])
def test_a_job_that_slots_would_cost_something_is_pinned_by_its_nodes_alone(able: Capabilities) -> None:
    of = job(Request(per_task="gres/gpu=1"), ntasks=2, shape=Shape(gpus=2, by_slot=False))
    assert line(pin(of, "n5", slots=None), of, able) == "update JobId=7 ReqNodeList=n5 NumNodes=1-1 StartTime=now"
    assert isinstance(rewrite(pin(of, "n5"), of, able), CantEdit)


@pytest.mark.parametrize("slots", [None, (1, 3)])
def test_a_job_that_can_not_be_planned_can_not_be_pinned(slots: tuple[int, ...] | None) -> None:
    of = job(Request(per_node="gres/gpu:4", per_job="gres/gpu:8"), shape=None)
    assert isinstance(rewrite(pin(of, "n5", slots=slots), of, NEW), CantEdit)
    named = job(Request(per_node="gres/gpu:g1:1"), shape=None, required_nodes="n5")
    assert isinstance(rewrite(pin(named, "n6", slots=slots), named, NEW), CantEdit)  # the user's own words


def test_an_undo_never_asks_for_fewer_nodes_at_most_than_at_least() -> None:
    of = job(Request(per_node="gres/gpu:g1:1", min_nodes=1, max_nodes=1), lease=Lease(NOW + 5, Request()))
    made = Request(per_node="gres/gpu:2", min_nodes=2, max_nodes=1)
    assert "NumNodes=2-2" in line(Unpin(7, original=made), of, NEW)


def test_a_pin_of_two_nodes_counts_the_slots_per_job() -> None:
    of = job(Request(per_job="gres/gpu:4", max_nodes=4), ntasks=4)
    assert line(pin(of, "n5", "n6"), of, NEW) == (
        "update JobId=7 ReqNodeList=n5,n6 TresPerJob=gres/gpu:g1:2,gres/gpu:g3:2 NumNodes=2-2 StartTime=now"
    )


def test_a_pin_may_choose_the_partition_and_leave_the_gpus() -> None:
    of = job(Request(per_job="gres/gpu:2", partition="a,b"))
    edit = Pin(7, nodes=("n5",), partition="b", original=of.request)
    assert line(edit, of, NEW) == "update JobId=7 ReqNodeList=n5 Partition=b StartTime=now"
    restored = Unpin(7, until=NOW + 60, original=of.request)
    pinned = job(Request(per_job="gres/gpu:2", partition="b"))
    assert line(restored, pinned, NEW) == (f"update JobId=7 ReqNodeList= Partition=a,b StartTime=uts{NOW + 60}")


def test_an_unpin_gives_back_the_request_as_it_was() -> None:
    made = Request(per_task="cpu=2,gres/gpu=1", min_nodes=1, max_nodes=0)
    stands = Request(per_node="gres/gpu:g1:1,gres/gpu:g3:1", per_task="cpu=2")
    of = job(stands, ntasks=2, lease=Lease(NOW + 5, made))
    assert line(Unpin(7), of, NEW) == (
        "update JobId=7 ReqNodeList= TresPerNode= TresPerTask=cpu=2,gres/gpu=1 NumNodes=1-2 StartTime=now"
    )
    asked = rewrite(Unpin(7), of, NEW)
    assert isinstance(asked, Rewrite) and asked.exact


def test_before_23_02_6_an_unpin_clears_the_node_list_and_says_that_it_is_not_exact() -> None:
    of = job(Request(per_job="gres:gpu:g1:1"), lease=Lease(NOW + 5, Request(per_node="gres:gpu:1")))
    assert line(Unpin(7), of, OLD) == "update JobId=7 ReqNodeList= StartTime=now"
    asked = rewrite(Unpin(7), of, OLD)
    assert isinstance(asked, Rewrite) and not asked.exact


def test_before_23_02_6_a_pin_stays_on_its_slots_but_may_change_the_node() -> None:
    of = job(Request(per_job="gres:gpu:g1:1,gres:gpu:g3:1"), lease=Lease(NOW + 5, Request(per_node="gres:gpu:2")))
    again = Pin(7, nodes=("n6",), slots=(1, 3))
    assert line(again, of, OLD) == "update JobId=7 ReqNodeList=n6 StartTime=now"
    assert isinstance(rewrite(Pin(7, nodes=("n6",), slots=(0, 3)), of, OLD), CantEdit)


def test_a_users_own_node_list_is_never_replaced_nor_cleared() -> None:
    of = job(Request(per_node="gres/gpu:1"), lease=Lease(NOW + 5, Request(per_node="gres/gpu:1"), own_nodes=True))
    assert isinstance(rewrite(pin(of, "n5", slots=None), of, NEW), CantEdit)
    assert line(Unpin(7), of, NEW) == "update JobId=7 StartTime=now"


@pytest.mark.parametrize(
    "edit",
    [
        Pin(7, nodes=("n1 StartTime=now",)),
        Pin(7, nodes=("n1\nupdate jobid=1",)),
        Pin(7, nodes=("-n1",)),
        Pin(7, nodes=("@all",)),
        Pin(7, nodes=("n1", "n1")),
        Pin(7),
        Pin(7, nodes=("n1",), partition="a b"),
        Pin(7, nodes=("n1",), slots=()),
        Pin(7, nodes=("n1",), slots=(1, 1)),
        Pin(7, nodes=("n1",), slots=(-1,)),
        Pin(7, nodes=("n1",), slots=(1,), original=Request(per_node="gres/gpu:1 x=y")),
        Pin(7, nodes=("n1",), slots=(1,), original=Request(per_socket="gres/gpu:1")),
        Pin(7, nodes=("n1",), slots=(1,), original=Request()),
        Unpin(7, original=Request(per_node="gres/gpu:3\n", partition="gpu")),
        Unpin(7, original=Request(partition="gpu;x")),
    ],
)
def test_what_can_not_be_said_safely_is_refused(edit: Edit) -> None:
    of = job(Request(per_node="gres/gpu:1", partition="gpu"))
    refused = prepare(edit, of)
    assert not isinstance(refused, Ready) and refused.outcome is Outcome.REFUSED


def test_without_disable_job_shrink_no_node_list_goes_to_a_job_that_may_start_any_moment() -> None:
    soon = job(Request(per_node="gres/gpu:1"), eligible=NOW + 2)
    refused = prepare(pin(soon, "n1", slots=None), soon, may_name_nodes=False)
    assert not isinstance(refused, Ready) and "disable_job_shrink" in refused.said
    far = job(Request(per_node="gres/gpu:1"), eligible=NOW + 60)
    assert isinstance(prepare(pin(far, "n1", slots=None), far, may_name_nodes=False), Ready)
    assert isinstance(prepare(Unpin(7), soon, may_name_nodes=False), Ready)


def test_tasks_of_an_array_are_named_so_that_no_other_task_is_reached() -> None:
    waiting = job(Request(per_job="gres/gpu:1"), array_id=5, array_tasks=(1, 2, 3, 7))
    assert line(Renew(7, until=NOW), waiting, NEW).startswith("update JobId=5_[1-3,7] ")
    assert line(Plain(7, task=2), waiting, NEW) == "update JobId=5_2 StartTime=now"
    alone = job(Request(per_job="gres/gpu:1"), array_id=5, array_task=9)
    assert line(Plain(7), alone, NEW) == "update JobId=5_9 StartTime=now"
    nobody = prepare(Plain(7, task=4), waiting)
    assert not isinstance(nobody, Ready) and nobody.outcome is Outcome.GONE


def test_an_edit_of_the_rest_of_an_array_leaves_tasks_with_edits_of_their_own_alone() -> None:
    waiting = job(Request(per_job="gres/gpu:1"), array_id=7, array_tasks=(1, 2, 3))
    edits: list[Edit] = [Plain(7, task=2), Renew(7, until=NOW)]
    ready = [made for made in prepare_all(edits, by_id([waiting]), NEW, True, NOW) if isinstance(made, Ready)]
    assert [made.target for made in ready] == ["7_2", "7_[1,3]"]
