"""An evil planner asks for anything; whatever the guard lets pass is judged safe by a plain second opinion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from pal_slurm.guard import Permit, Rules, check
from pal_slurm.model import (
    Action,
    Decision,
    Hint,
    Job,
    JobState,
    Lease,
    Placement,
    Reason,
    Request,
    Reservation,
    Shape,
    Waits,
)
from pal_slurm.policy import compose, plan
from tests.builders import NOW
from tests.property.worlds import FEATURES, World, askable, jobs, queues, reservations, snapshot, taken, worlds

RULES = Rules(disable_job_shrink=True, exact_slots=True, margin_s=5)
OWN = Lease(NOW + 60, Request(), own_nodes=True)
SMALL = (
    Shape(gpus=1, cpus=3), Shape(gpus=2, cpus=4), Shape(gpus=2, max_nodes=2), Shape(min_nodes=2, max_nodes=2, gpus=2),
    Shape(gpus_per_node=2, mem_per_node_mb=400), Shape(min_nodes=2, max_nodes=3, gpus_per_node=1, cpus_per_node=3),
)  # fmt: skip


@st.composite
def odd_jobs(draw: st.DrawFn, number: int) -> Job:
    """A small job with at most one thing wrong with it."""
    job = replace(draw(jobs(number=number)), shape=draw(st.sampled_from(SMALL)))
    wrongs: list[dict[str, object]] = [
        *({},) * 12, {"lease": None}, {"lease": OWN}, {"eligible": NOW - 1}, {"eligible": NOW + 4},
        {"required_nodes": "n1"}, {"hint": Hint(off=True)}, {"het": True}, {"exclusive": True}, {"shape": None},
        {"state": JobState.RUNNING}, {"why": Waits.HELD}, {"reservation": "class"},
        {"eligible": None, "dependency": "afterok:1"},
    ]  # fmt: skip
    return replace(job, **draw(st.sampled_from(wrongs)))  # type: ignore[arg-type]


def placements(world: World) -> st.SearchStrategy[Placement]:
    """Mostly nonsense, near enough to sense to be tempting."""
    cluster = world.cluster
    names = st.sampled_from((*cluster.node_names, *cluster.node_names, "ghost"))
    slots = st.lists(st.integers(-1, cluster.width), max_size=3).map(tuple)

    def build(nodes: list[str], one: tuple[int, ...], many: list[tuple[int, ...]], same: bool) -> Placement:
        gpus = (one,) * len(nodes) if same else tuple(many[: len(nodes)])
        return Placement(tuple(nodes), gpus, exact=same)

    made = st.builds(build, st.lists(names, max_size=3), slots, st.lists(slots, min_size=3, max_size=3), st.booleans())
    partition = st.sampled_from((None, None, "gpu", "few", "other"))
    return st.builds(lambda p, q, e: replace(p, partition=q, exact=e), made, partition, st.booleans())


def tempting(world: World, job: Job) -> list[Placement]:
    """What would be right if one did not look at what is free, allowed or enough."""
    if job.shape is None:
        return []
    cluster = world.cluster
    lax = replace(
        cluster,
        node_ok=np.ones(cluster.n_nodes, dtype=np.bool_),
        gpu_free=np.ones(cluster.gpu_free.shape, dtype=np.bool_),
        cpus_free=cluster.cpus,
        mem_free_mb=cluster.mem_mb,
        features=(frozenset(FEATURES),) * cluster.n_nodes,
        partitions={name: np.ones(cluster.n_nodes, dtype=np.bool_) for name in cluster.partitions},
        slots=True,
    )
    return list(askable(World(lax, world.knowledge), replace(job, excluded_nodes="")))


@st.composite
def evil(draw: st.DrawFn) -> tuple[World, tuple[Job, ...], tuple[Reservation, ...], list[Decision]]:
    world = draw(worlds(max_nodes=3, max_width=3))
    queue = tuple(draw(odd_jobs(i + 1)) for i in range(draw(st.integers(1, 5))))
    windows = draw(reservations())
    decisions = []
    for number in draw(st.permutations([job.id for job in queue] + [1, 99])):
        job = next((job for job in queue if job.id == number), draw(jobs(number=99)))
        sane = draw(st.sampled_from((True, False, False)))
        choices = list(askable(world, job, windows)) if sane else tempting(world, job)
        nonsense = st.none() | placements(world)
        likely = draw(st.integers(0, 9)) > 0
        where = draw(st.sampled_from(choices)) if choices and likely else draw(nonsense)
        action = draw(st.sampled_from((Action.START,) * 8 + (Action.PLAIN, Action.WAIT)))
        task = draw(st.sampled_from((None,) * 9 + (3,)))
        decisions.append(Decision(number, task, action, Reason.BEST_SPAN, where))
    return world, queue, windows, decisions


def unsafe(world: World, job: Job | None, decision: Decision, windows: Sequence[Reservation]) -> str | None:
    """The second opinion: is this start one of all those that may be asked for in this world?"""
    if job is None or job.state is not JobState.PENDING or decision.task is not None:
        return "no such waiting job"
    if job.lease is None or job.why is Waits.HELD or job.dependency:
        return "not ours, or not its time"
    if job.eligible is None or job.eligible <= NOW + RULES.margin_s:
        return "the lease may end first"
    if decision.action is Action.PLAIN:
        return None
    if decision.action is not Action.START:
        return "not a start"
    if job.hint.off or job.het or job.exclusive or job.required_nodes or job.lease.own_nodes or job.reservation:
        return "hands off"
    if job.shape is None or decision.placement is None:
        return "nothing to say"
    loose = {replace(p, gpus=()) for p in askable(world, job, windows) if not p.exact}
    if decision.placement in set(askable(world, job, windows)):
        return None
    # Without slots Slurm picks the devices; any prediction of free ones will do.
    free = all(
        world.cluster.gpu_free[world.cluster.node_index[n], list(s)].all()
        for n, s in zip(decision.placement.nodes, decision.placement.gpus, strict=True)
    )
    one_node = replace(decision.placement, exact=world.cluster.slots) in set(askable(world, job, windows))
    return None if free and (replace(decision.placement, gpus=()) in loose or one_node) else "can't be asked for"


@given(evil())
@settings(max_examples=600, deadline=None)
def test_an_evil_planner_never_gets_an_unsafe_permit(
    case: tuple[World, tuple[Job, ...], tuple[Reservation, ...], list[Decision]],
) -> None:
    world, queue, windows, decisions = case
    by_id = {job.id: job for job in queue}
    permitted: set[int] = set()
    pins: list[Placement] = []
    for verdict in check(decisions, snapshot(world, queue, windows), RULES):
        decision = verdict.decision
        job = by_id.get(decision.job)
        if not isinstance(verdict, Permit):
            event(str(verdict.reason))
            assert verdict.said.endswith(tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
            continue
        event("permit")
        assert unsafe(world, job, decision, windows) is None
        assert decision.job not in permitted
        permitted.add(decision.job)
        if decision.action is Action.START and decision.placement is not None and job is not None:
            for other in pins:  # a loose pin takes what is lowest then: never beside one that names its devices
                assert other.exact == decision.placement.exact or not set(other.nodes) & set(decision.placement.nodes)
            pins.append(decision.placement)
            world = World(taken(world.cluster, job, decision.placement), world.knowledge)


@given(evil())
@settings(max_examples=100, deadline=None)
def test_nothing_is_pinned_without_disable_job_shrink(
    case: tuple[World, tuple[Job, ...], tuple[Reservation, ...], list[Decision]],
) -> None:
    world, queue, windows, decisions = case
    verdicts = check(decisions, snapshot(world, queue, windows), replace(RULES, disable_job_shrink=False))
    assert not any(isinstance(v, Permit) and v.decision.action is Action.START for v in verdicts)


@given(worlds(), queues(), reservations())
@settings(max_examples=200, deadline=None)
def test_what_the_planner_starts_gets_its_permit(
    world: World, queue: tuple[Job, ...], windows: tuple[Reservation, ...]
) -> None:
    look = snapshot(world, queue, windows)
    starts = [d for d in plan(look, world.knowledge, compose("pal")).decisions if d.action is Action.START]
    for verdict in check(starts, look, RULES):
        # One plan may want a pin with and one without slots on the same node; then one of them comes a cycle later.
        assert isinstance(verdict, Permit) or verdict.reason == "slot-race", verdict
