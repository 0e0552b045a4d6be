"""What moves would be proposed: gain over cost, exchanges, room for the head; what they cost and brought."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.config import Config
from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.moves.budget import balance, losers, losing
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.measuring import measured
from pal_slurm.daemon.moves.proposing import proposals
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round
from pal_slurm.guard import MoveRules, Permit, Rules, check
from pal_slurm.model import (
    App,
    Apps,
    Cluster,
    Consent,
    Decision,
    Ending,
    Given,
    Hint,
    Job,
    JobState,
    Knowledge,
    Lease,
    Move,
    Placement,
    Reason,
    Request,
    RunTimes,
    ScoreTable,
    Shape,
    Snapshot,
    homogeneous,
    neutral_scores,
)
from pal_slurm.policy import Floor, compose
from pal_slurm.policy.earmark import Earmark
from pal_slurm.policy.moving.value import ByValue, ForRoom, MayMove, rest_of
from pal_slurm.policy.plan import KeptForWaiting
from pal_slurm.slurm.port import Passes
from pal_slurm.store.samples import JobSample
from tests.builders import usual

NOW = 1_800_000_000.0
HOUR = 3600


def running(number: int, node: str, slots: tuple[int, ...], app: str = "a", **more: object) -> Job:
    asks = Request(per_node=f"gres/gpu:{len(slots)}")
    made = Job(
        number, JobState.RUNNING, int(NOW) - 2 * HOUR, f"u{number}", partitions=("gpu",), start=int(NOW) - HOUR,
        end=int(NOW) + 20 * HOUR, shape=Shape(1, 1, len(slots)), gpu_job=True, request=asks, nodes=(node,),
        gpus=(slots,), hint=Hint(app=app), lease=Lease(0, asks), consent=Consent(Given.ASKED), requeue=True, batch=1,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def waiting(number: int, gpus: int) -> Job:
    return Job(
        number, JobState.PENDING, int(NOW) - 60, "w", partitions=("gpu",), shape=Shape(1, 1, gpus), gpu_job=True,
        request=Request(per_node=f"gres/gpu:{gpus}"), hint=Hint(app="a"), eligible=int(NOW) + 60,
    )  # fmt: skip


OWN = {f"r{n}": App(f"r{n}", f"r{n}") for n in range(1, 9)}  # each of a class of its own
APPS = Apps({"a": App("a", "A"), "b": App("b", "B"), **OWN}, App("?", "A"))


def look(
    jobs: list[Job], scores: dict[tuple[str, str, int], float], *, waits: tuple[Job, ...] = (), cost: float = 60.0,
    nodes: int = 4, margin: float = 2.0, movable: list[Job] | None = None, idle: float = 0.0, placer: str = "lv",
    **of_queue: Any,
) -> list[Decision]:  # fmt: skip
    """`scores`: (class, node, slot); any other GPU counts 1.0."""
    made: Cluster = homogeneous(nodes, 4)
    free = np.array(made.gpu_free)
    for job in jobs:
        for node, slots in zip(job.nodes, job.gpus, strict=True):
            free[made.node_index[node], list(slots)] = False
    made = replace(made, gpu_free=free)
    table: ScoreTable = neutral_scores(made, ("A", "B", *OWN))
    values = np.array(table.score)
    for (cls, node, slot), score in scores.items():
        values[table.classes.index(cls), made.node_index[node], slot] = score
    bins = np.stack([np.unique(of_class, return_inverse=True)[1].reshape(of_class.shape) for of_class in values])
    all_known = np.ones(values.shape, dtype=np.bool_)
    known = Knowledge(ScoreTable(table.classes, values, bins.astype(np.int16), all_known), APPS)
    view = Snapshot(NOW, made, waits, tuple(jobs))
    heads = [ForRoom(job, NOW + HOUR) for job in waits]
    seek = ByValue(view, known, compose("pal", placement=placer).placement, margin, 8, heads, **of_queue)
    return seek.moves([MayMove(job, cost, idle_s=idle) for job in (jobs if movable is None else movable)])


def slow(*nodes: str, score: float = 1.5) -> dict[tuple[str, str, int], float]:
    return {("A", node, slot): score for node in nodes for slot in range(4)}


def test_a_job_on_slow_gpus_goes_to_free_ones_that_are_better() -> None:
    (found,) = look([running(1, "n1", (0, 1))], slow("n1"))
    assert found.reason is Reason.BETTER_GPUS and found.placement is not None and found.placement.nodes != ("n1",)
    assert found.terms is not None and found.step_time is not None
    assert found.terms.step_before == pytest.approx(1.5 * found.step_time)
    assert found.terms.gain_s == pytest.approx(HOUR / 3)  # it has run for an hour, and is taken to run for one more


@pytest.mark.parametrize(
    ("ends", "promised", "expected", "goes"),
    [(2.0, 3.0, 1.0, True), (2.0, 1.0, 1.0, False), (2.0, 3.0, 0.2, False), (0.5, 0.6, 0.6, True), (None, 3, 1, False)],
)
def test_movers_put_off_neither_the_promised_nor_the_expected_start_of_a_waiting_job(
    ends: float | None, promised: float, expected: float, goes: bool
) -> None:
    """In hours from now: the limit of the mover, and the starts. It will probably end in 12 to 20 minutes."""
    taught = RunTimes()
    for _ in range(100):
        taught.ended("u", "a", "", 10.0 * HOUR, 0.8 * HOUR)  # on GPUs that are 1.5 times as fast
    end = None if ends is None else int(NOW + ends * HOUR)
    kept = KeptForWaiting(dict.fromkeys((1, 2, 3), (0, 0, 0)), NOW + promised * HOUR, NOW + expected * HOUR, None)
    job = replace(running(1, "n1", (0, 1)), user="u", end=end)
    alone = look([job], slow("n1"), run_times=taught, kept=kept, margin=0.1)
    assert bool([d for d in alone if d.reason is Reason.BETTER_GPUS]) is goes
    pair = [replace(running(1, "n1", (0, 1, 2, 3)), user="u", end=end), running(2, "n2", (0, 1, 2, 3), "b")]
    assert (
        bool(look(pair, slow("n1"), nodes=2, run_times=taught, kept=kept._replace(room={1: (0, 0, 0)}), margin=0.1))
        is goes
    )


@pytest.mark.parametrize(("gpus", "goes"), [(4, True), (8, False)])
def test_two_exchange_where_the_waiting_job_can_start_on_what_either_of_them_leaves(gpus: int, goes: bool) -> None:
    """It starts when the first of the two ends, on whichever node that is; one that needs both starts later."""
    pair = [running(1, "n1", (0, 1, 2, 3)), running(2, "n2", (0, 1, 2, 3), "b")]
    kept = KeptForWaiting({0: (0, 0, 0), 1: (0, 0, 0)}, NOW + HOUR, NOW + HOUR, None)
    waits = replace(waiting(9, gpus), shape=Shape(gpus // 4, gpus // 4, gpus))
    found = look(pair, slow("n1"), nodes=2, run_times=RunTimes(), kept=kept, margin=0.1, waits=(waits,))
    assert bool([d for d in found if d.terms is not None and d.terms.partner is not None]) is goes


@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_small_mover_leaves_nodes_alone_that_are_earmarked_for_a_waiting_job(row: int) -> None:
    mask = np.arange(4) == row
    earmark = Earmark(Floor(homogeneous(4, 4), Knowledge(neutral_scores(homogeneous(4, 4)), APPS)).needs.guess(
        waiting(9, 4)), (row,), mask, 4)  # fmt: skip
    kept = KeptForWaiting({}, NOW + HOUR, NOW + HOUR, earmark)
    (found,) = look([running(1, "n1", (0, 1))], slow("n1"), placer="thrift", kept=kept)
    assert found.placement is not None and found.placement.nodes[0] not in ("n1", f"n{row + 1}")


def test_what_does_not_pay_stays() -> None:
    job = running(1, "n1", (0, 1))
    assert look([job], slow("n1", score=1.02)) == []  # 70 s against twice 60
    assert look([job], slow("n1"), cost=700.0) == []
    assert look([job], {}) == []
    assert look([job], slow("n1"), idle=530.0) and look([job], slow("n1"), idle=550.0) == []  # its target stands idle
    ends_soon = replace(job, end=int(NOW) + 300)
    assert look([ends_soon], slow("n1")) == []  # a third of five minutes


def test_the_best_free_gpus_are_given_once() -> None:
    jobs = [running(number, f"n{number}", (0, 1, 2, 3)) for number in (1, 2, 3)]
    found = look(jobs, slow("n1", "n2") | slow("n3", score=1.9))
    assert [d.job for d in found] == [3]  # who runs worst; only n4 is free
    assert found[0].placement is not None and found[0].placement.nodes == ("n4",)


def test_two_jobs_exchange_their_gpus_when_one_gains_and_the_other_does_not_lose() -> None:
    jobs = [running(1, "n1", (0, 1, 2, 3), "a"), running(2, "n2", (0, 1, 2, 3), "b")]
    found = {d.job: d for d in look(jobs, slow("n1"), nodes=2)}
    assert {job: d.terms.partner for job, d in found.items() if d.terms} == {1: 2, 2: 1}
    assert {job: d.placement.nodes for job, d in found.items() if d.placement} == {1: ("n2",), 2: ("n1",)}
    both_mind = [jobs[0], replace(jobs[1], hint=Hint(app="a"))]
    assert look(both_mind, slow("n1"), nodes=2) == []
    one_sided = [jobs[0], replace(jobs[1], excluded_nodes="n1")]
    assert look(one_sided, slow("n1"), nodes=2) == []


@pytest.mark.parametrize(
    ("ahead", "exchange"), [((0, 0), True), ((30, 90), True), ((0, 30), False), ((30, 600), False)]
)
def test_who_has_saved_does_not_stand_still_for_minutes_until_the_other_one_has(
    ahead: tuple[int, int], exchange: bool
) -> None:
    jobs = [
        running(n, f"n{n}", (0, 1, 2, 3), app, consent=Consent(Given.ASKED, signal="USR1" if s else "", ahead_s=s))
        for n, app, s in zip((1, 2), "ab", ahead, strict=True)
    ]
    assert bool(look(jobs, slow("n1"), nodes=2)) == exchange


def test_who_hardly_feels_a_slow_gpu_takes_it_for_another_ones_sake_and_nobody_else_does() -> None:
    jobs = [running(1, "n1", (0, 1, 2, 3), "a"), running(2, "n2", (0, 1, 2, 3), "b")]

    def with_loss(share: float) -> list[Decision]:
        felt = {("B", "n1", slot): 1.0 / (1.0 - share) for slot in range(4)}
        return look(jobs, slow("n1") | felt, nodes=2)

    gains = {d.job: d.terms.gain_s for d in with_loss(0.015) if d.terms}
    assert gains == {1: pytest.approx(HOUR / 3), 2: pytest.approx(-HOUR * 0.015 / 0.985)}
    assert with_loss(0.03) == []


def wants(cls: str, *nodes: str) -> dict[tuple[str, str, int], float]:
    """It is three times as slow anywhere but there."""
    return {(cls, f"n{n}", slot): 1.0 if f"n{n}" in nodes else 3.0 for n in range(1, 9) for slot in range(4)}


EIGHT = [running(n, f"n{n}", (0, 1, 2, 3), f"r{n}") for n in range(1, 9)]
EACH_ITS_NEXT = {key: score for n in range(1, 9) for key, score in wants(f"r{n}", f"n{n % 8 + 1}").items()}


def test_eight_jobs_of_which_each_is_best_off_where_the_next_one_runs_turn_in_one_ring() -> None:
    found = {d.job: d for d in look(EIGHT, EACH_ITS_NEXT, nodes=8)}
    assert {job: d.terms.partner for job, d in found.items() if d.terms} == {n: n % 8 + 1 for n in range(1, 9)}
    assert {job: d.placement.nodes for job, d in found.items() if d.placement} == {
        n: (f"n{n % 8 + 1}",) for n in range(1, 9)
    }


def test_who_is_asked_to_save_first_is_in_no_ring_and_exchanges_with_one_other() -> None:
    """He may not answer: all behind him would have gone for nothing."""
    asked = [replace(job, consent=Consent(Given.ASKED, signal="USR1", ahead_s=30)) for job in EIGHT]
    found = {d.job: d for d in look(asked, EACH_ITS_NEXT, nodes=8)}
    partners = {job: d.terms.partner for job, d in found.items() if d.terms}
    assert partners and all(partners[partner or 0] == job for job, partner in partners.items())


def test_three_exchange_where_of_any_two_one_would_become_slower() -> None:
    wanted = wants("r1", "n2") | wants("r2", "n2", "n3") | wants("r3", "n3", "n1")
    scores = {key: score for key, score in wanted.items() if key[1] in ("n1", "n2", "n3")}
    found = {d.job: d.placement.nodes for d in look(EIGHT[:3], scores, nodes=3) if d.placement}
    assert found == {1: ("n2",), 2: ("n3",), 3: ("n1",)}


def test_a_ring_has_no_member_that_does_not_pay_for_its_own_move() -> None:
    jobs = [running(1, "n1", (0, 1, 2, 3), "a"), *(running(n, f"n{n}", (0, 1, 2, 3), "b") for n in (2, 3, 4))]
    assert {d.job for d in look(jobs, slow("n1"), nodes=4)} in ({1, 2}, {1, 3}, {1, 4})


def spread(**more: Any) -> Job:
    """Four GPUs on two nodes, where its class is slow."""
    made = replace(running(1, "n1", (2, 3), cpus_alloc=8), shape=Shape(1, 4, gpus=4, cpus=8), nodes=("n1", "n2"))
    return replace(made, **{"gpus": ((2, 3), (2, 3))} | more)


def small(n: int, slots: tuple[int, ...] = (), node: str = "n3", **more: Any) -> Job:
    return running(n, node, slots or (n - 2,), "b", cpus_alloc=2, **more)


FOUR = [small(n) for n in range(2, 6)]
SIGNAL = Consent(Given.ASKED, signal="USR1", ahead_s=30)
WAITS_ON_N3 = KeptForWaiting({2: (0, 0, 0)}, NOW + HOUR, NOW + HOUR, None)
SHORT = int(NOW) + 2400
END_SOON = [replace(job, end=SHORT) for job in FOUR]


@pytest.mark.parametrize(
    ("wide", "smalls", "queue", "moved"),
    [
        pytest.param(spread(), FOUR, {}, 5, id="one and four"),
        pytest.param(spread(), [small(2, (0, 1)), small(3, (2, 3))], {}, 3, id="one and two of two GPUs"),
        pytest.param(spread(), [small(2, (0, 1, 2)), small(3, (3,))], {}, 0, id="it leaves no three on a node"),
        pytest.param(spread(), FOUR, {"movable": [spread(), *FOUR[1:]]}, 0, id="one is not movable"),
        pytest.param(spread(), FOUR, {"movable": FOUR}, 0, id="the spread one is not"),
        pytest.param(spread(), FOUR, {"cost": 600.0}, 0, id="it does not pay"),
        pytest.param(spread(), [replace(job, hint=Hint(app="a")) for job in FOUR], {}, 0, id="they would be slower"),
        pytest.param(spread(shape=Shape(2, 2, gpus=4)), FOUR, {}, 0, id="it asks for two nodes"),
        pytest.param(spread(gpus=((1, 2, 3), (3,))), FOUR, {}, 0, id="it could not go back"),
        pytest.param(spread(shape=Shape(1, 4, gpus=4, mem_per_node_mb=9**9)), FOUR, {}, 0, id="its memory"),
        pytest.param(spread(shape=Shape(1, 4, gpus=4, cpus=999)), FOUR, {}, 0, id="its CPUs"),
        pytest.param(spread(), [*FOUR[:3], small(5, shape=Shape(1, 1, 1, cpus_per_node=999))], {}, 0, id="their CPUs"),
        pytest.param(spread(), [*FOUR[:3], small(5, excluded_nodes="n1,n2")], {}, 0, id="one may not go there"),
        pytest.param(spread(), [*FOUR[:3], small(5, consent=SIGNAL)], {}, 0, id="one is asked first"),
        pytest.param(spread(consent=SIGNAL), [replace(j, consent=SIGNAL) for j in FOUR], {}, 0, id="all are"),
        pytest.param(spread(), END_SOON, {"kept": WAITS_ON_N3}, 0, id="kept for a job that waits"),
        pytest.param(spread(), END_SOON, {}, 5, id="no job waits"),
        pytest.param(spread(end=SHORT), FOUR, {"kept": WAITS_ON_N3, "margin": 0.5}, 5, id="and it ends before that"),
        pytest.param(spread(), FOUR, {"kept": WAITS_ON_N3}, 5, id="no more of what is kept than before"),
    ],
)  # fmt: skip
def test_a_spread_job_and_those_who_hold_the_gpus_of_a_node_change_places(
    wide: Job, smalls: list[Job], queue: dict[str, Any], moved: int
) -> None:
    beside = [running(90 + n, f"n{n}", (0, 1)) for n in (1, 2)]
    jobs = [wide, *smalls]
    found = {d.job: d for d in look([*jobs, *beside], slow("n1", "n2"), nodes=3, **{"movable": jobs} | queue)}
    assert len(found) == moved
    if moved:
        taken = [(node, slot) for d in found.values() if d.placement for node, slots in zip(
            d.placement.nodes, d.placement.gpus, strict=True) for slot in slots]  # fmt: skip
        assert sorted(taken) == sorted({(n, s) for n in ("n1", "n2") for s in (2, 3)} | {("n3", s) for s in range(4)})
        assert found[1].placement is not None and found[1].placement.nodes == ("n3",)
        partners = {job: set(d.terms.partners) for job, d in found.items() if d.terms}
        assert partners == {1: set(found) - {1}} | {job: {1} for job in set(found) - {1}}


def test_a_job_may_make_room_for_the_head() -> None:
    jobs = [running(number, f"n{number}", (0,)) for number in (1, 2)]
    (found,) = look(jobs, {}, waits=(waiting(9, 4),), nodes=2)
    assert found.reason is Reason.MAKES_ROOM and found.terms is not None and found.terms.makes_room_for == 9
    assert found.placement is not None and found.placement.nodes != jobs[found.job - 1].nodes
    assert look(jobs, {}, waits=(waiting(9, 3),), nodes=2) == []  # it has room already
    assert look(jobs, {}, waits=(waiting(9, 4),), nodes=2, cost=8000.0) == []  # dearer than the head's wait
    assert look(jobs, {}, waits=(waiting(9, 4),), nodes=2, movable=[]) == []


def test_several_jobs_make_room_for_a_head_and_none_of_them_waits_for_another() -> None:
    jobs = [running(10 * n + slot, f"n{n}", (slot,)) for n in (1, 2, 3) for slot in range(2)]
    found = look(jobs, {}, waits=(waiting(99, 4),), nodes=3)
    left = {d.job // 10 for d in found}
    assert len(found) == 2 and len(left) == 1  # both of one node
    targets = [(d.placement.nodes[0], d.placement.gpus[0]) for d in found if d.placement]
    assert len(set(targets)) == 2 and not {node for node, _ in targets} & {f"n{n}" for n in left}
    assert not set(targets) & {(job.nodes[0], job.gpus[0]) for job in jobs}  # what they take is free now
    bound = [job for job in jobs if job.id != 11]
    assert {d.job // 10 for d in look(jobs, {}, waits=(waiting(99, 4),), nodes=3, movable=bound)} != {1}
    over_two = replace(waiting(99, 4), shape=Shape(2, 2, 8))
    assert look(jobs, {}, waits=(over_two,), nodes=3) == []  # 6 GPUs are free


def test_free_gpus_that_the_head_has_no_use_for_serve_those_who_run() -> None:
    jobs = [running(1, "n1", (0,)), running(2, "n2", (0, 1)), running(3, "n3", (0, 1))]
    (found,) = look(jobs, slow("n1"), waits=(waiting(9, 8),), nodes=3, movable=jobs[:1])
    assert found.job == 1 and found.reason is Reason.BETTER_GPUS
    assert found.placement is not None and found.placement.nodes != ("n1",)


def test_a_job_is_not_taken_to_run_for_longer_than_jobs_use_of_their_limits() -> None:
    job = replace(running(1, "n1", (0,)), start=int(NOW) - HOUR, end=int(NOW) + 3 * HOUR, time_limit_s=4 * HOUR)
    for of_limit, slower, rest in (
        (None, 1.0, HOUR), (0.4, 1.0, 0.6 * HOUR), (0.2, 1.0, HOUR),  # who has outlived most goes on as long again
        (0.2, 1.7, 0.36 * HOUR),  # where it runs jobs take 1.7 times as long
    ):  # fmt: skip
        times = usual(of_limit) if of_limit else RunTimes()
        assert rest_of(job, App("", "A"), NOW, times, slower) == pytest.approx(rest, rel=0.05)


def test_planning_for_two_thousand_movable_jobs_is_quick() -> None:
    """By the clock of this process: others may be busy."""
    jobs = [running(i + 1, f"n{i // 2 + 1}", ((0, 1), (2, 3))[i % 2], "ab"[i % 3 == 0]) for i in range(2000)]
    rng = np.random.default_rng(1)
    scores = {("A", f"n{n + 1}", slot): float(1 + 0.3 * rng.random()) for n in range(1000) for slot in range(4)}
    cost: list[float] = []
    for _ in range(2):
        begun = time.process_time()
        assert len(look(jobs, scores, nodes=1000)) == 8
        cost.append(time.process_time() - begun)
    assert min(cost) < 3.0  # with all that is built for it here; benchmarks/bench_moving.py counts the look alone


def test_exchanges_among_ten_thousand_jobs_of_one_shape_take_a_bounded_memory() -> None:
    """By the square of the jobs it would be more than the unit may have."""
    jobs = [running(i + 1, f"n{i // 4 + 1}", (i % 4,), "ab"[i % 2]) for i in range(10_000)]
    rng = np.random.default_rng(1)
    scores = {("A", f"n{n + 1}", slot): float(1 + 0.3 * rng.random()) for n in range(2500) for slot in range(4)}
    tracemalloc.start()
    try:
        assert len(look(jobs, scores, nodes=2500)) == 8
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_a_look_that_fails_leaves_the_floor_as_it_was() -> None:
    cluster = homogeneous(2, 4)
    job = running(1, "n1", (0, 1))
    free = np.array(cluster.gpu_free)
    free[0, :2] = False
    cluster = replace(cluster, gpu_free=free)
    known = Knowledge(neutral_scores(cluster, ("A", "B", *OWN)), APPS)
    floor = Floor(cluster, known, now=NOW)

    class Fails:
        def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
            raise RuntimeError("a fault of ours")

    seek = ByValue(Snapshot(NOW, cluster, (), (job,)), known, Fails(), -1.0, 8, floor=floor)
    with pytest.raises(RuntimeError):
        seek.moves([MayMove(job, 60.0)])
    assert (floor.free == free).all()


MOVE = Move(
    1, 100, "u", 0, Placement(("n1",), ((0, 1),), True), Request(), NOW, app="a", model="m", cost_s=60.0, gain_s=600.0,
    ending=Ending.MOVED, stopped_at=NOW, started_at=NOW + 20,
)  # fmt: skip


def test_a_cost_is_told_until_it_was_measured_and_a_claim_of_nothing_counts_as_the_default() -> None:
    keys, made = MovesSection(), homogeneous(2, 4)
    job = running(1, "n1", (0, 1))
    model = made.models[0]

    def cost(told: int | None, *moves: Move, gpus: int = 2) -> float:
        asks = replace(job, user="u", consent=Consent(Given.ASKED, told), gpus=(tuple(range(gpus)),))
        return Costs.learned(keys, [replace(m, model=model) for m in moves]).of(asks, made)

    assert (cost(None), cost(1), cost(600)) == (60.0, 60.0, 600.0)
    seen = replace(MOVE, real_cost_s=20.0)
    assert cost(None, seen, seen) == 60.0  # too few
    assert cost(None, MOVE, MOVE, MOVE) == 60.0  # how long nothing ran is not what was lost
    assert cost(None, seen, seen, seen) == 20.0
    assert (cost(5, seen, seen, seen), cost(600, seen, seen, seen)) == (20.0, 600.0)
    others = [replace(seen, user=name, real_cost_s=cost) for name, cost in (("a", 7000.0), ("b", 30.0), ("c", 40.0))]
    assert cost(None, *others[:1] * 3) == 60.0  # one other's word, however often
    assert cost(None, *others * 3) == 40.0
    assert cost(None, *others * 3, seen, seen, seen) == 20.0
    assert Costs(MovesSection(large_gpus=4)).of(replace(job, gpus=((0, 1, 2, 3),)), made) == 300.0


def test_what_moves_promised_too_much_is_asked_for_beyond_the_margin() -> None:
    brought = [replace(MOVE, real_gain_s=200.0, real_cost_s=20.0)] * 2
    assert Costs.learned(MovesSection(), brought).doubt == pytest.approx(3.0)
    assert Costs.learned(MovesSection(), [replace(MOVE, real_gain_s=900.0)]).doubt == 1.0
    assert Costs.learned(MovesSection(), [replace(MOVE, real_gain_s=-50.0)]).doubt == 10.0


def test_moves_that_cost_more_than_they_brought_stop_by_themselves() -> None:
    good = replace(MOVE, real_gain_s=100.0, real_cost_s=20.0)
    bad = replace(MOVE, real_gain_s=-30.0, real_cost_s=90.0)
    assert balance([good, bad, MOVE]) == 2 * (80 - 120)
    assert losing([bad] * 5) and not losing([bad] * 4) and not losing([good, good, good, good, bad])


def test_one_user_whose_moves_do_not_pay_is_moved_no_more_and_the_others_are() -> None:
    """What a job shows of its steps is its user's word: no reason to stop everybody's moves (P12)."""
    good = replace(MOVE, real_gain_s=100.0, real_cost_s=20.0)
    bad = replace(MOVE, user="liar", real_gain_s=-7000.0, real_cost_s=7000.0)
    week = [good, *[bad] * 5]
    assert balance(week) < 0 and not losing(week) and losers(week) == {"liar"}
    assert losing([*week, *[replace(good, user="third", real_gain_s=-200.0)] * 5])


def a_sample(begun: float, ended: float, step_s: float) -> JobSample:
    return JobSample("d", "c", "1", "a", "n1", ("g",), begun, ended, 1, step_s)


def test_a_cost_without_steps_is_what_was_reckoned_and_steps_count_for_no_more_than_the_time_there() -> None:
    now = NOW + 100.0
    (plain,) = measured([MOVE], [], lambda _: [], now)
    assert plain.real_cost_s == 60.0  # 20 s were dead; how long it loaded nobody saw
    (dead_for_long,) = measured([replace(MOVE, started_at=NOW + 90)], [], lambda _: [], now)
    assert dead_for_long.real_cost_s == 90.0
    shown = [a_sample(NOW - 100, NOW, 1.0), a_sample(NOW + 30, NOW + 90, 1e9)]
    (lied,) = measured([MOVE], [], lambda _: shown, now)
    assert (lied.real_cost_s, lied.real_gain_s) == (30.0, -80.0)


def test_who_made_room_brought_what_it_promised_if_the_other_one_was_let_go_soon() -> None:
    room = replace(MOVE, makes_room_for=7)

    def gain(*at: float) -> float | None:
        (found,) = measured([room], [], lambda _: [], NOW + 1000, lambda job: at if job == 7 else ())
        return found.real_gain_s

    assert gain(NOW + 30) == MOVE.gain_s
    assert gain() == gain(NOW - 5) == gain(NOW + 700) == 0.0  # its own steps are as they were


@pytest.mark.parametrize(("used", "pairs"), [(0, 4), (16, 2), (17, 1), (19, 0)])
def test_what_a_user_may_not_have_any_more_keeps_no_other_one_from_moving(used: int, pairs: int) -> None:
    def job(number: int, node: str, slot: int, app: str, user: str) -> Job:
        return running(number, node, (slot,), app, user=user, cpus_alloc=1, priority=5)

    many = [job(4 * n + slot, f"n{n}", slot, "a" if n < 3 else "b", "x") for n in (1, 2, 3, 4) for slot in range(4)]
    few = [job(90, "n5", 0, "a", "y"), job(91, "n5", 1, "b", "y")]
    scores = slow("n1", "n2") | {("A", "n5", 0): 1.4}
    cluster = homogeneous(5, 4)
    cluster = replace(cluster, gpu_free=np.zeros_like(cluster.gpu_free))
    table = neutral_scores(cluster, ("A", "B"))
    values = np.array(table.score)
    for (cls, node, slot), score in scores.items():
        values[table.classes.index(cls), cluster.node_index[node], slot] = score
    bins = np.stack([np.unique(of, return_inverse=True)[1].reshape(of.shape) for of in values]).astype(np.int16)
    view = Snapshot(NOW, cluster, (), (*many, *few))
    round = Round(CycleReport(), 1, 0.0, Passes(0, 0, 0, 0, 0), view)
    round.view, round.knowledge = view, Knowledge(replace(table, score=values, bins=bins), APPS)
    moves = MoveRules(first_s=0.0, last_s=0.0, share=0.5, of_user={"x": used})
    rules = Rules(disable_job_shrink=True, moves=moves)
    found = proposals(round, [], compose("pal"), Config(), rules, Costs(MovesSection()), RunTimes())
    assert len(found) == 2 * pairs + (2 if pairs < 4 else 0)
    begun = [v.decision.job for v in check(found, view, rules) if isinstance(v, Permit)]
    assert len(begun) == len(found) and ({90, 91} <= set(begun)) == (pairs < 4)
    mixed = replace(view, running=(few[1], *many, few[0]))  # the first exchange is one of x with one of y
    round.view = mixed
    found = proposals(round, [], compose("pal"), Config(), rules, Costs(MovesSection()), RunTimes())
    assert {91} < {d.job for d in found} and len({d.job for d in found}) == len(found)
    assert all(isinstance(verdict, Permit) for verdict in check(found, mixed, rules))
