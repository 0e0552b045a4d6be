"""Queues as real ones are: jobs that are not ours, broken requests, arrays, unknown nodes. A plan always comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.guard import Permit, Rules, check
from pal_slurm.model import Action, Hint, Job, JobState, Lease, Request, Shape, Snapshot, Waits
from pal_slurm.policy import Circumstances, Composition, compose, plan
from pal_slurm.policy.memory import Head, Memory
from pal_slurm.policy.seams import fills
from tests.builders import NOW
from tests.property.worlds import World, askable, jobs, reservations, worlds

EASY = fills.get("easy")
ODDITIES: list[dict[str, Any]] = [
    {"lease": None, "eligible": NOW - 5, "why": Waits.TURN},
    {"lease": None, "eligible": NOW - 5, "why": Waits.ROOM, "planned_nodes": "n[1-2]", "start": NOW + 700},
    {"lease": None, "eligible": NOW - 5, "why": Waits.ROOM, "planned_nodes": "x[1-2]", "start": NOW - 700},
    {"lease": None, "gpu_job": False, "shape": None, "eligible": NOW - 9, "planned_nodes": "n1", "start": NOW + 50},
    {"shape": None, "request": Request(per_node="gres:gpu:a100:2,gres:gpu:1", min_nodes=2, max_nodes=0)},
    {"shape": None, "request": Request(per_socket="gpu:2", per_task="gres/gpu=3")},
    {"shape": None, "het": True, "request": Request(per_job="gres:gpu:99999")},
    {"shape": Shape(min_nodes=3, max_nodes=2, gpus_per_node=0)},
    {"shape": Shape(gpus=0)},
    {"shape": Shape(min_nodes=2, max_nodes=9, gpus=7, cpus=10**6)},
    {"exclusive": True},
    {"exclusive": True, "shape": Shape(min_nodes=2, max_nodes=4, gpus=5)},
    {"required_nodes": "n[2-3],ghost"},
    {"required_nodes": "$(id)", "excluded_nodes": "n[3-1]", "features": "[a*2&b]"},
    {"hint": Hint(off=True)},
    {"hint": Hint("nobody-knows")},
    {"partitions": ("gone", "few")},
    {"partitions": ("gone",)},
    {"reservation": "maint"},
    {"array_id": 1, "array_tasks": (1, 2, 5, 9), "array_limit": 2},
    {"array_id": 1, "array_task": 3},
    {"dependency": "afterok:3", "eligible": None},
    {"eligible": None, "lease": Lease(NOW - 9, Request())},
    {"why": Waits.HELD},
    {"time_limit_s": 0},
]
RUNNING: list[dict[str, Any]] = [
    {"nodes": ("ghost",), "gpus": ((0,),), "end": NOW + 9},
    {"nodes": ("n1",), "gpus": ((),), "end": NOW - 9, "cpus_alloc": 3, "shape": None},
    {"nodes": ("n1", "n1"), "gpus": (), "end": None},
]


@st.composite
def odd_queues(draw: st.DrawFn) -> tuple[Job, ...]:
    queue = []
    for number in range(1, draw(st.integers(1, 9)) + 1):
        job = draw(jobs(number=number))
        queue.append(replace(job, **draw(st.sampled_from([{}, {}, {}, *ODDITIES]))))
    return tuple(queue)


@st.composite
def compositions(draw: st.DrawFn) -> Composition:
    made = compose(
        draw(st.sampled_from(("pal", "packed", "pm-first", "random"))),
        order=draw(st.sampled_from(("", "fifo", "slurm"))),
    )
    fill = draw(st.sampled_from((EASY, EASY, fills.get("none"), replace(EASY, reserve=3))))
    return replace(made, fill=fill)


@given(
    worlds(), odd_queues(), reservations(), compositions(), st.lists(st.sampled_from(RUNNING), max_size=2), st.data()
)
@settings(max_examples=400, deadline=None)
def test_a_plan_comes_and_its_starts_are_safe_whatever_stands_in_the_queue(
    world: World,
    queue: tuple[Job, ...],
    windows: tuple[Any, ...],
    composition: Composition,
    busy: list[dict[str, Any]],
    data: st.DataObject,
) -> None:
    running = tuple(Job(90 + i, JobState.RUNNING, NOW - 99, "u", **facts) for i, facts in enumerate(busy))
    released = {}
    if queue[0].shape is not None and data.draw(st.booleans()):
        where = next(iter(askable(world, replace(queue[0], features="", excluded_nodes="", partitions=()))), None)
        released = {queue[0].id: where} if where else {}
    overdue = {queue[-1].key: Head(NOW - 9, NOW - 5)} if data.draw(st.booleans()) else {}
    look = Snapshot(NOW, world.cluster, queue, running, windows)
    made = plan(look, world.knowledge, composition, Circumstances(released), Memory(NOW - 9, heads=overdue))
    by_id = {job.id: job for job in queue}
    assert {d.job for d in made.decisions} == {j.id for j in queue if j.gpu_job and j.id not in released}
    for decision in made.decisions:
        if decision.action in (Action.START, Action.PLAIN):
            assert by_id[decision.job].lease is not None
    pins = [d for d in made.decisions if d.action is Action.START]
    for verdict in check(pins, look, Rules(disable_job_shrink=True, margin_s=0), released):
        # A lease that has run out and whose end Slurm does not show: only the guard knows better than to trust it.
        assert isinstance(verdict, Permit) or verdict.reason in ("slot-race", "no-lease"), verdict
