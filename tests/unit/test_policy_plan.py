"""Plans: whose turn it is, what is decided about each kind of job, and what is kept for those that wait."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.model import (
    Action,
    Apps,
    Cluster,
    Decision,
    Hint,
    Job,
    Knowledge,
    Placement,
    Reason,
    Reservation,
    ScoreTable,
    Shape,
    Waits,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import Circumstances, Composition, Plan, Planner, compose, plan
from pal_slurm.policy.line import Group, InLine
from pal_slurm.policy.memory import NO_MEMORY, Head, Memory
from pal_slurm.policy.seams import Fill
from pal_slurm.policy.walk import Walk
from tests.builders import NOW, leased, running, scores, snapshot, usual

PAL = compose("pal")


def waiting(number: int, gpus: int = 1, **facts: Any) -> Job:
    return leased(number, gpus, **({"time_limit_s": 3600} | facts))


def known(cluster: Cluster) -> Knowledge:
    scores = neutral_scores(cluster)
    return Knowledge(ScoreTable(scores.classes, scores.score, scores.bins, np.ones(scores.score.shape, dtype=np.bool_)))


def made(
    cluster: Cluster,
    pending: list[Job],
    busy: list[Job] | None = None,
    composition: Composition = PAL,
    circumstances: Circumstances | None = None,
    memory: Memory = NO_MEMORY,
    windows: tuple[Reservation, ...] = (),
) -> Plan:
    free = cluster.gpu_free.copy()
    cpus = cluster.cpus_free.copy()
    for job in busy or []:
        for name, slots in zip(job.nodes, job.gpus, strict=True):
            free[cluster.node_index[name], list(slots)] = False
            cpus[cluster.node_index[name]] -= job.cpus_alloc or 1
    cluster = replace(cluster, gpu_free=free, cpus_free=cpus)
    look = snapshot(*pending, *busy or (), cluster=cluster, windows=windows)
    return plan(look, known(cluster), composition, circumstances or Circumstances(), memory)


def heads(job: Job, until: float) -> Memory:
    return Memory(NOW - 900, heads={job.key: Head(NOW - 900, until)})


def told(result: Plan) -> list[tuple[int, str, str]]:
    return [(d.job, str(d.action), str(d.reason)) for d in result.decisions]


def only(result: Plan) -> Decision:
    (decision,) = result.decisions
    return decision


ONE = homogeneous(1, 4)
TWO = homogeneous(2, 4)


@pytest.mark.parametrize(
    ("facts", "action", "reason"),
    [
        ({}, Action.START, Reason.BEST_SPAN),
        ({"lease": None, "eligible": NOW - 5, "why": Waits.TURN}, Action.LEAVE, Reason.FOREIGN),
        ({"lease": None}, Action.LEAVE, Reason.FOREIGN),
        ({"eligible": NOW - 1}, Action.LEAVE, Reason.FOREIGN),
        ({"why": Waits.HELD}, Action.LEAVE, Reason.HELD),
        ({"why": Waits.BLOCKED, "eligible": None, "dependency": "afterok:9"}, Action.WAIT, Reason.NOT_ELIGIBLE),
        ({"hint": Hint(off=True)}, Action.PLAIN, Reason.WANTS_OFF),
        ({"het": True, "shape": None}, Action.PLAIN, Reason.CANT_PIN),
        ({"shape": None}, Action.PLAIN, Reason.CANT_PIN),
        ({"exclusive": True}, Action.PLAIN, Reason.CANT_PIN),
        ({"required_nodes": "n1"}, Action.PLAIN, Reason.CANT_PIN),
        ({"features": "[a|b]"}, Action.PLAIN, Reason.CANT_PIN),
        ({"shape": Shape(gpus=9)}, Action.PLAIN, Reason.CANT_PIN),  # as we reckon it never fits: Slurm may know better
        ({"shape": Shape(gpus=2, cpus=999)}, Action.PLAIN, Reason.CANT_PIN),
        ({"partitions": ("down",)}, Action.WAIT, Reason.NO_ROOM),
        ({"shape": None, "gpu_job": False}, Action.PLAIN, Reason.CANT_PIN),
        ({"reservation": "class"}, Action.PLAIN, Reason.CANT_PIN),
    ],
)
def test_each_kind_of_waiting_job_gets_its_decision(facts: dict[str, Any], action: Action, reason: Reason) -> None:
    decision = only(made(ONE, [waiting(1, **facts)]))
    assert (decision.action, decision.reason) == (action, reason)
    assert (decision.placement is not None) == (action is Action.START)


def test_a_cpu_job_gets_no_decision() -> None:
    assert made(ONE, [replace(waiting(1), gpu_job=False, shape=None, lease=None)]).decisions == ()


def test_without_any_score_placement_is_neutral() -> None:
    look = snapshot(waiting(1), cluster=ONE)
    decision = only(plan(look, Knowledge(neutral_scores(ONE)), PAL))
    assert (decision.action, decision.reason) == (Action.START, Reason.NEUTRAL)
    assert decision.placement == Placement(("n1",), ((0,),), True)


def test_slurms_own_choice_is_priced_beside_ours() -> None:
    bins = np.array([[[1, 0]]])
    scores = ScoreTable(("A",), 0.75 + bins / 2, bins, np.ones(bins.shape, dtype=np.bool_))
    decision = only(plan(snapshot(waiting(1), cluster=homogeneous(1, 2)), Knowledge(scores, Apps()), PAL))
    assert decision.placement == Placement(("n1",), ((1,),), True)
    assert decision.slurm_placement == Placement(("n1",), ((0,),), False)
    assert (decision.step_time, decision.slurm_step_time) == (0.75, 1.25)


def test_a_plain_job_takes_its_turn_and_its_gpus_but_never_before() -> None:
    off = {"hint": Hint(off=True)}
    assert told(made(ONE, [waiting(1, 3, **off), waiting(2, 2)])) == [
        (1, "plain", "wants-off"),
        (2, "wait", "no-room"),
    ]
    head, short = waiting(1, 4), waiting(2, 1, **off)
    busy = [running(8, {"n1": (0, 1)}, NOW + 600)]
    assert told(made(ONE, [head, short], busy)) == [(1, "wait", "no-room"), (2, "wait", "behind-head")]
    short = replace(short, time_limit_s=600)
    assert told(made(ONE, [head, short], busy)) == [(1, "wait", "no-room"), (2, "plain", "wants-off")]


def test_a_job_that_fits_only_unevenly_goes_plain_in_its_turn() -> None:
    busy = [running(8, {"n1": (0,), "n2": (0, 1, 2)}, NOW + 600)]
    four = waiting(1, shape=Shape(min_nodes=2, max_nodes=2, gpus=4))
    assert told(made(TWO, [four, waiting(2)], busy)) == [(1, "plain", "cant-pin"), (2, "wait", "no-room")]


def test_the_head_gets_the_earliest_start_and_what_is_free_till_then_is_filled() -> None:
    busy = [running(8, {"n1": (0, 1)}, NOW + 600), running(9, {"n2": (0, 1, 2)}, NOW + 900)]
    result = made(TWO, [waiting(1, 4), waiting(2, 2), waiting(3, 2, time_limit_s=600), waiting(4, 1)], busy)
    assert told(result) == [
        (1, "wait", "no-room"),
        (2, "wait", "behind-head"),
        (3, "pin", "best-span"),
        (4, "pin", "best-span"),
    ]
    (kept,) = result.reserved
    assert (kept.job, kept.start) == (1, NOW + 600)
    assert kept.nodes == ("n1",)
    assert result.decisions[3].placement == Placement(("n2",), ((3,),), True)


def test_where_no_limit_is_known_the_emptiest_node_is_kept_clear() -> None:
    busy = [running(8, {"n1": (0, 1, 2)}, None), running(9, {"n2": (0,)}, None)]
    result = made(TWO, [waiting(1, 4), waiting(2, 1, time_limit_s=60), waiting(3, 1, time_limit_s=60)], busy)
    assert told(result) == [(1, "wait", "no-room"), (2, "pin", "best-span"), (3, "wait", "no-room")]
    (kept,) = result.reserved
    assert (kept.start, kept.nodes) == (math.inf, ("n2",))


def test_cpus_that_the_head_needs_later_are_not_given_away() -> None:
    small = homogeneous(1, 4, cpus=8)
    busy = [running(8, {"n1": (0,)}, NOW + 600, cpus_alloc=4)]
    head = waiting(1, shape=Shape(gpus=2, cpus=6))
    long_, short = waiting(2, shape=Shape(gpus=1, cpus=3)), waiting(3, shape=Shape(gpus=1, cpus=3), time_limit_s=600)
    assert told(made(small, [head, long_, short], busy)) == [
        (1, "wait", "no-room"),
        (2, "wait", "behind-head"),
        (3, "pin", "best-span"),
    ]


def test_cpus_count_as_free_from_the_moment_that_their_job_ends() -> None:
    busy = [
        running(8, {"n1": (0,)}, NOW + 600, cpus_alloc=4),
        running(9, {"n1": (1,)}, NOW + 1200, cpus_alloc=2),
    ]
    head, long_ = waiting(1, shape=Shape(gpus=2, cpus=5)), waiting(2, shape=Shape(gpus=1, cpus=1))
    result = made(homogeneous(1, 4, cpus=8), [head, long_], busy)
    assert result.reserved[0].start == NOW + 600
    assert told(result)[1] == (2, "pin", "best-span")
    long_ = replace(long_, shape=Shape(gpus=1, cpus=2))
    assert told(made(homogeneous(1, 4, cpus=8), [head, long_], busy))[1] == (2, "wait", "behind-head")


def test_memory_that_the_head_needs_is_waited_for() -> None:
    half = replace(homogeneous(1, 4), mem_mb=np.array([1000]), mem_free_mb=np.array([400]))
    busy = [replace(running(8, {"n1": (0,)}, NOW + 600), shape=Shape(gpus=1, mem_per_node_mb=600))]
    head = waiting(1, shape=Shape(gpus=1, mem_per_node_mb=700))
    for mine, answer in ((300, "pin"), (301, "wait")):
        result = made(half, [head, waiting(2, shape=Shape(gpus=1, mem_per_node_mb=mine))], busy)
        assert result.reserved[0].start == NOW + 600
        assert told(result)[1][1] == answer


def test_an_exclusive_job_takes_whole_nodes_that_are_big_enough() -> None:
    exists = np.array([[True, False, False], [True, True, True], [True, True, True]])
    cluster = replace(homogeneous(3, 3), gpu_exists=exists, gpu_free=exists)
    alone = waiting(1, shape=Shape(gpus_per_node=2), exclusive=True)
    result = made(cluster, [alone, waiting(2, 3), waiting(3, 1), waiting(4, 1)])
    assert [d.action for d in result.decisions] == ["plain", "pin", "pin", "wait"]
    assert result.decisions[0].slurm_placement == Placement(("n2",), ((0, 1, 2),), False)


def test_jobs_that_can_never_run_here_block_nobody_and_are_not_kept() -> None:
    assert told(made(ONE, [waiting(1, 9), waiting(2, 4)])) == [(1, "plain", "cant-pin"), (2, "pin", "best-span")]


def test_a_job_that_never_fits_as_we_reckon_goes_plain_in_its_turn_only() -> None:
    busy = [running(8, {"n1": (0, 1)}, NOW + 600)]
    assert told(made(ONE, [waiting(1, 4), waiting(2, 9)], busy)) == [(1, "wait", "no-room"), (2, "wait", "no-room")]


def test_a_job_that_fits_once_nodes_are_up_and_windows_are_over_waits_for_us() -> None:
    down = replace(TWO, node_ok=np.zeros(2, dtype=np.bool_))
    assert told(made(down, [waiting(1, 4)])) == [(1, "wait", "no-room")]
    window = Reservation("maint", frozenset({"n1", "n2"}), int(NOW) + 10, int(NOW) + 500)
    assert told(made(TWO, [waiting(1, 4)], windows=(window,))) == [(1, "wait", "no-room")]


def test_a_job_whose_pin_was_refused_goes_plain_and_its_gpus_are_counted_once() -> None:
    result = made(ONE, [waiting(1, 2), waiting(2, 2)], circumstances=Circumstances(refused=frozenset({1})))
    assert told(result) == [(1, "plain", "refused"), (2, "pin", "best-span")]


def test_where_slots_would_cost_a_job_something_it_is_placed_by_nodes() -> None:
    job = waiting(1, 2)
    assert job.shape is not None
    decision = only(made(ONE, [replace(job, shape=replace(job.shape, by_slot=False))]))
    assert decision.placement is not None and not decision.placement.exact
    assert decision.placement.gpus == ((0, 1),)  # the lowest free ones are what Slurm takes


def test_a_job_that_names_some_of_its_nodes_gets_others_beside_them() -> None:
    job = waiting(1, 2, required_nodes="n2", shape=Shape(min_nodes=2, max_nodes=2, gpus_per_node=1))
    assert told(made(TWO, [job])) == [(1, "plain", "cant-pin")]


def test_where_no_gpu_is_to_be_seen_slurm_may_know_of_some() -> None:
    """Nodes of a cloud that are powered down are not shown to everybody."""
    bare = replace(ONE, gpu_exists=np.zeros((1, 4), dtype=np.bool_), gpu_free=np.zeros((1, 4), dtype=np.bool_))
    decision = only(made(bare, [waiting(1)]))
    assert (decision.action, decision.reason) == (Action.PLAIN, Reason.CANT_PIN)


def test_each_partition_has_its_own_head() -> None:
    parts = {"p": np.array([True, False]), "q": np.array([False, True])}
    busy = [running(8, {"n1": (0,), "n2": (0,)}, NOW + 600)]
    jobs = [waiting(1, 4, partitions=("p",)), waiting(2, 4, partitions=("q",)), waiting(3, 1, partitions=("q",))]
    result = made(replace(TWO, partitions=parts), jobs, busy)
    assert [r.job for r in result.reserved] == [1, 2]
    assert told(result)[2] == (3, "wait", "behind-head")


def test_a_foreign_job_ahead_counts_as_what_slurm_would_give_it() -> None:
    foreign = waiting(1, 3, lease=None, eligible=NOW - 5, why=Waits.ROOM, priority=9)
    assert told(made(ONE, [foreign, waiting(2, 2)])) == [(1, "leave", "foreign"), (2, "wait", "no-room")]
    later = replace(foreign, eligible=NOW + 999, why=Waits.BEGIN)
    assert told(made(ONE, [later, waiting(2, 2)])) == [(1, "leave", "foreign"), (2, "pin", "best-span")]
    limited = replace(foreign, why=Waits.LIMIT)
    assert told(made(ONE, [limited, waiting(2, 2)]))[1] == (2, "pin", "best-span")


def test_what_slurm_planned_for_a_foreign_job_is_respected() -> None:
    facts: dict[str, Any] = {"lease": None, "eligible": NOW - 5, "why": Waits.ROOM, "priority": 9}
    foreign = waiting(1, 4, planned_nodes="n1", start=NOW + 1800, **facts)
    long_, short = waiting(2, 4), waiting(3, 4, time_limit_s=1800)
    assert told(made(ONE, [foreign, long_, short])) == [
        (1, "leave", "foreign"),
        (2, "wait", "behind-head"),
        (3, "pin", "best-span"),
    ]
    cpu_job = replace(foreign, gpu_job=False, shape=None)
    assert told(made(ONE, [cpu_job, long_, short])) == [(2, "wait", "behind-head"), (3, "pin", "best-span")]


def test_a_job_that_wants_whole_nodes_leaves_those_that_slurm_planned_for_a_cpu_job() -> None:
    cpu_job = waiting(
        1, gpu_job=False, shape=None, lease=None, eligible=NOW - 5, why=Waits.ROOM, planned_nodes="n1", start=NOW + 600
    )
    whole = waiting(2, shape=Shape(gpus_per_node=4), exclusive=True, time_limit_s=7200)
    assert told(made(ONE, [cpu_job, whole])) == [(2, "wait", "behind-head")]
    assert told(made(ONE, [cpu_job, replace(whole, time_limit_s=600)])) == [(2, "plain", "cant-pin")]


def test_a_later_head_is_promised_no_gpu_that_somebody_holds_longer() -> None:
    """The first keeps a GPU of n2, whichever: the second job may take the very one, and another is kept then."""
    parts = {"gpu": np.array([True, True]), "x": np.array([False, True])}
    busy = [running(8, {"n1": (0, 1, 2, 3)}, NOW + 100, cpus_alloc=4)]
    both = waiting(1, shape=Shape(gpus_per_node=1, min_nodes=2, max_nodes=2), time_limit_s=1000, partitions=("gpu",))
    day = waiting(2, 1, time_limit_s=86400, partitions=("x", "gpu"))
    result = made(replace(TWO, partitions=parts), [both, day, waiting(3, 4, partitions=("x",))], busy)
    assert told(result)[1] == (2, "pin", "best-span")
    assert [(kept.job, kept.start) for kept in result.reserved] == [(1, NOW + 100), (3, NOW + 86400)]


def test_kinds_that_decline_are_not_asked_anew_for_every_start_of_every_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with jobs, not with jobs times starts."""
    cluster = homogeneous(250, 8)
    scores = np.full((1, 250, 8), 1.4)
    scores[0, ::8, 0] = 1.0
    knowledge = Knowledge(
        ScoreTable(("A",), scores, (scores > 1.2).astype(np.int16), np.ones(scores.shape, dtype=np.bool_)), Apps()
    )
    queue = [waiting(n, 1 + n % 8, shape=Shape(gpus=1 + n % 8, cpus=n % 3)) for n in range(1, 2001)]
    asked, candidate = Counter[str](), Walk._candidate

    def counted(walk: Walk, group: Group) -> InLine | None:
        asked["times"] += 1
        return candidate(walk, group)

    monkeypatch.setattr(Walk, "_candidate", counted)
    facts = Circumstances(run_times=usual(0.9))
    held = [
        running(5000 + n, {f"n{1 + 2 * n}": (0,)}, NOW + 400, start=NOW - 500, time_limit_s=900) for n in range(125)
    ]
    free = np.ones((250, 8), dtype=np.bool_)
    free[::2, 0] = False
    cluster = replace(cluster, gpu_free=free)
    result = plan(snapshot(*queue, *held, cluster=cluster), knowledge, compose("pal"), facts, Memory(begun=0.0))
    starts = sum(d.action is Action.START for d in result.decisions)
    declined = sum(d.reason is Reason.BETTER_GPUS_SOON for d in result.decisions)
    assert starts > 20 and declined > 20
    assert asked["times"] < 2 * len(queue)


def test_a_job_whose_lease_ran_out_is_leased_again_only_where_slurm_neither_starts_nor_plans_it_soon() -> None:
    ran_out: dict[str, Any] = {"eligible": NOW - 5, "why": Waits.ROOM}
    again = Circumstances(lapsed=frozenset({2}))
    behind = [waiting(1, 4), waiting(2, 4, **ran_out)]
    assert told(made(ONE, behind, circumstances=again))[1] == (2, "wait", "lease-ran-out")
    assert told(made(ONE, [waiting(2, 4, **ran_out)], circumstances=again)) == [(2, "leave", "foreign")]
    for start, told_of_it in ((60, (2, "leave", "foreign")), (1800, (2, "wait", "lease-ran-out"))):
        planned = waiting(2, 4, planned_nodes="n1", start=NOW + start, **ran_out)
        assert told(made(ONE, [waiting(1, 4), planned], circumstances=again))[1] == told_of_it
    assert told(made(ONE, behind))[1] == (2, "leave", "foreign")


def test_pins_that_have_not_started_hold_their_gpus_and_are_not_decided_again() -> None:
    spot = Placement(("n1",), ((0, 1, 2),), True)
    result = made(ONE, [waiting(1, 3), waiting(2, 2)], circumstances=Circumstances(released={1: spot}))
    assert told(result) == [(2, "wait", "no-room")]


@pytest.mark.parametrize("gone", [{"n9": (0, 1)}, {"n1": (4, 5)}, {"n1": (0, 1), "n9": (0, 1)}])
def test_what_has_left_the_configuration_keeps_nobody_from_being_planned(gone: dict[str, tuple[int, ...]]) -> None:
    """A node, or its last GPUs, taken out of slurm.conf while a job holds them or was just pinned there."""
    spot = Placement(tuple(gone), tuple(gone.values()), True)
    free = ONE.gpu_free.copy()
    free[0, [slot for slot in gone.get("n1", ()) if slot < 4]] = False
    cluster = replace(ONE, gpu_free=free)
    facts, others = Circumstances(released={1: spot}), [waiting(1, 2), waiting(2, 2)]
    assert told(made(ONE, others, circumstances=facts)) == [(2, "pin", "best-span")]
    look = snapshot(waiting(2, 4), running(7, gone, int(NOW) + 600), cluster=cluster)
    planner = Planner.of(look, known(cluster), PAL)
    planner.act(NOW)
    planner.ended(7)
    assert told(planner.act(NOW + 1)) == [(2, "pin", "best-span")]


def test_what_is_kept_for_a_head_is_not_given_away_in_the_plan_that_lets_it_go() -> None:
    busy = [running(8, {"n1": (0,)}, NOW + 600)]
    queue = [waiting(1, 4), *(waiting(n, 1) for n in (2, 3))]
    for beside in (Circumstances(), Circumstances(rivals=lambda job, since: True)):
        result = made(ONE, queue, busy, circumstances=beside, memory=heads(queue[0], NOW + 999))
        assert result.decisions[0].action is (Action.WAIT if beside == Circumstances() else Action.PLAIN)
        assert {d.job: d.action for d in result.decisions if d.job > 1} == {2: Action.WAIT, 3: Action.WAIT}


def test_a_head_that_is_overdue_goes_plain() -> None:
    busy = [running(8, {"n1": (0,)}, NOW + 600)]
    result = made(ONE, [waiting(1, 4)], busy, memory=heads(waiting(1, 4), NOW - 1))
    assert told(result) == [(1, "plain", "past-planned-start")]


def test_array_tasks_are_placed_one_by_one_and_the_rest_waits_as_one() -> None:
    array = waiting(5, 2, array_id=5, array_tasks=tuple(range(1000)))
    result = made(ONE, [array])
    assert [(d.task, d.action) for d in result.decisions] == [(0, "pin"), (1, "pin"), (None, "wait")]
    limited = replace(array, array_limit=2)
    task = running(7, {"n1": (3,)}, NOW + 60, array_id=5, array_task=9)
    result = made(ONE, [limited], [task])
    assert [(d.task, d.reason) for d in result.decisions] == [(0, Reason.BEST_SPAN), (None, Reason.NOT_ELIGIBLE)]
    last = made(ONE, [waiting(6, 2, array_id=5, array_task=4)])
    assert only(last).task == 4


def test_the_last_task_that_was_let_go_counts_although_it_has_the_arrays_own_record() -> None:
    split = waiting(6, 1, array_id=5, array_task=1, array_limit=1)
    last = waiting(5, 1, array_id=5, array_tasks=(2,), array_limit=1, eligible=int(NOW) - 1)
    decided = {d.job: d for d in made(ONE, [split, last]).decisions}
    assert (decided[6].action, decided[6].reason) == (Action.WAIT, Reason.NOT_ELIGIBLE)
    held = {d.job: d for d in made(ONE, [split, replace(last, why=Waits.HELD)]).decisions}
    assert held[6].action is Action.START


def test_nodes_of_a_reservation_are_not_used_by_a_job_that_would_run_into_it() -> None:
    window = (Reservation("maint", frozenset({"n1"}), NOW + 1000, NOW + 5000),)
    jobs = [waiting(1, 4), waiting(2, 4, time_limit_s=1000), waiting(3, 4, time_limit_s=None)]
    result = made(TWO, jobs, windows=window)
    assert [d.placement.nodes if d.placement else None for d in result.decisions] == [("n2",), ("n1",), None]


def test_without_backfill_the_order_is_kept_strictly() -> None:
    result = made(ONE, [waiting(1, 3), waiting(2, 2), waiting(3, 1)], composition=compose("pal", fill="none"))
    assert told(result) == [(1, "pin", "best-span"), (2, "wait", "no-room"), (3, "wait", "behind-head")]


def test_more_reservations_than_one_can_be_kept() -> None:
    busy = [running(8, {"n1": (0,)}, NOW + 600), running(9, {"n2": (0,)}, NOW + 900)]
    result = made(
        TWO,
        [waiting(i, 4) for i in (1, 2, 3)],
        busy,
        composition=replace(PAL, fill=Fill("three", reserve=3, strict=False)),
    )
    assert [(r.job, r.start, r.nodes) for r in result.reserved] == [
        (1, NOW + 600, ("n1",)),
        (2, NOW + 900, ("n2",)),
        (3, NOW + 600 + 3600, ("n1",)),
    ]


def test_a_running_job_that_does_not_tell_its_gpus_keeps_nobody_from_being_planned() -> None:
    """Seen on 26.05 of jobs that complete."""
    ends = replace(running(9, {"n1": (0,)}), gpus=((),), completing=True)
    result = made(homogeneous(2, 4), [waiting(1)], [ends])
    assert [(d.job, d.action) for d in result.decisions] == [(1, Action.START)]


# A GPU of n4 is the best for anybody; a job of four GPUs waits, and each node has one or two GPUs that are taken.
SCATTERED = [("n1", (0, 1)), ("n2", (0, 1)), ("n3", (0, 1)), ("n4", (3,))]
FULL = [("n1", (0, 1, 2)), ("n2", (0, 1, 2, 3)), ("n3", (0, 1, 2, 3)), ("n4", (2, 3))]


@pytest.mark.parametrize(
    ("wide", "taken", "small", "there"),
    [
        (None, SCATTERED, waiting(2), "n4"),
        (waiting(3, 4), SCATTERED, waiting(2), "n1"),  # it is behind the small one,
        (waiting(1, 4), SCATTERED, waiting(2), "n2"),  # or ahead: room on n1 is reserved for it
        (waiting(3, 4, lease=None, eligible=NOW - 5), SCATTERED, waiting(2), "n1"),  # and Slurm's own
        (waiting(3, 4), SCATTERED, waiting(2, array_id=2, array_tasks=(5,)), "n1"),
        (waiting(3, 4), SCATTERED, waiting(2, 3), "n4"),  # it fits nowhere else
        (waiting(3, 4), FULL, waiting(2), "n4"),  # so few are free that it could not start anyway
        (waiting(3, 4), [("n1", (0,)), ("n2", (0,)), ("n3", (0,))], waiting(2), "n1"),  # it fits now, on n4
        (waiting(3, 1), SCATTERED, waiting(2), "n4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("patience", ["", "none"])
def test_small_jobs_leave_the_node_alone_that_a_wide_one_will_have_first(
    wide: Job | None, taken: list[tuple[str, tuple[int, ...]]], small: Job, there: str, patience: str
) -> None:
    cluster = homogeneous(4, 4)
    table = scores(A=[[1.2] * 4, [1.4] * 4, [1.4] * 4, [0.8, 0.8, 0.8, 0.8]])
    busy = [running(20 + i, {node: slots}, NOW + 600) for i, (node, slots) in enumerate(taken)]
    free = cluster.gpu_free.copy()
    for node, slots in taken:
        free[cluster.node_index[node], list(slots)] = False
    queue = [small] if wide is None else sorted((wide, small), key=lambda job: job.id)
    look = snapshot(*queue, *busy, cluster=replace(cluster, gpu_free=free))
    made_of_it = plan(look, Knowledge(table), compose("pal", patience=patience))
    started = [d for d in made_of_it.decisions if d.job == small.id and d.placement is not None]
    assert [d.placement.nodes for d in started if d.placement] == [(there,)]
