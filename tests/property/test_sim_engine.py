"""What holds in every simulated run, whatever the policy, the trace and the speeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.admission import EasyBackfill
from benchmarks.published.orders import order_named
from benchmarks.published.policies import PublishedSpec, scheduler_for
from pal_slurm.model import App, Gpus, ScoreTable, Speeds, homogeneous
from pal_slurm.policy import Plan, compose
from pal_slurm.scores import binned
from pal_slurm.sim.engine import Change, ClusterRules, Engine, Run, Scheduler, Stage
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import Setting
from pal_slurm.sim.workload import Work, Workload, workload

NODES, WIDTH = 3, 4
CLUSTER = homogeneous(NODES, WIDTH)
APPS = tuple(App(cls, cls, {"gpu": base}, (1.0, 1.0, 1.7, 1.7)) for cls, base in (("A", 1.0), ("B", 0.5)))
PALD = ("fifo", "slurm")
CHANGING = ("fifo", "las", "srtf")
SPECS = [
    PublishedSpec(policy=policy, fill=fill, order=order, moves=moves)
    for policy, fills, moves, orders in (
        ("artifact/pal", ("none", "easy", "holes"), None, CHANGING),
        ("artifact/pm-first", ("none",), None, CHANGING),
        ("artifact/packed-sticky", ("none", "easy", "holes"), None, CHANGING),
        ("artifact/packed-nonsticky", ("none", "holes"), None, CHANGING),
        ("reassign", ("none", "easy", "holes"), True, CHANGING),
        ("pal", ("none", "easy"), True, PALD),
        ("pal", ("none", "easy"), False, PALD),
        ("gavel/max-min", ("none", "easy"), True, PALD),
        ("packed", ("none", "easy"), None, PALD),
        ("random", ("easy",), None, PALD),
    )
    for fill in fills
    for order in orders
]


def scores(seed: int, spread: float = 0.1) -> ScoreTable:
    rng = np.random.default_rng(seed)
    return binned(("A", "B"), np.exp(rng.normal(0, spread, (2, NODES, WIDTH))))


@st.composite
def loads(draw: st.DrawFn) -> Workload:
    jobs = draw(
        st.lists(
            st.tuples(
                st.integers(0, 500), st.sampled_from([1, 2, 3, 4, 8, 12]), st.integers(1, 400), st.integers(0, 1)
            ),
            min_size=1,
            max_size=12,
        )
    )
    return workload(
        Work(i, float(at), gpus, float(steps), APPS[app], 6.0 * steps * APPS[app].base["gpu"])
        for i, (at, gpus, steps, app) in enumerate(jobs)
    )


@dataclass
class Segment:
    job: int
    gpus: Gpus
    begin: float
    cost: float


class Watched:
    """A scheduler whose every step is checked."""

    def __init__(self, inner: Scheduler, rules: ClusterRules) -> None:
        self.inner, self.name = inner, inner.name
        self._rules = rules
        self._runs: list[Run] = []
        self.open: dict[int, Segment] = {}
        self.done: list[tuple[Segment, float]] = []

    @property
    def restless(self) -> bool:
        return self.inner.restless

    @property
    def wake_at(self) -> float:
        return self.inner.wake_at

    def arrive(self, run: Run) -> None:
        self._runs.append(run)
        self.inner.arrive(run)

    def ended(self, run: Run, gpus: Gpus) -> None:
        self._close(run.work.id, run.end)
        self.inner.ended(run, gpus)

    def learn(self, known: ScoreTable) -> None:
        self.inner.learn(known)

    def act(self, stage: Stage) -> None:
        self.inner.act(stage)
        held = [gpu for run in self._runs for gpu in run.gpus]
        assert len(held) == len(set(held)), "a GPU is held twice"
        assert all(0 <= gpu < CLUSTER.n_gpus for gpu in held)
        for run in self._runs:
            assert len(run.gpus) in (0, run.work.gpus)
            was = self.open.get(run.work.id)
            if was is not None and was.gpus != run.gpus:
                self._close(run.work.id, stage.now)
            if run.gpus and run.work.id not in self.open:
                again = run.first_start < stage.now
                cost = self._rules.restart_cost_s if again else 0.0
                self.open[run.work.id] = Segment(run.work.id, run.gpus, stage.now, cost)

    def _close(self, job: int, at: float) -> None:
        if job in self.open:
            self.done.append((self.open.pop(job), at))


def simulate(
    spec: PublishedSpec, load: Workload, seed: int, rules: ClusterRules, changes: tuple[Change, ...] = ()
) -> TraceOutcome:
    table = scores(seed)
    scheduler = scheduler_for(spec, Setting(CLUSTER, 1.7, rules, True), table, seed)
    return Engine(CLUSTER, table, load, scheduler, rules, changes).run()


@pytest.mark.every(3)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.policy}-{spec.order}-{spec.fill}-{spec.moves}")
@settings(deadline=None, max_examples=12)
@given(load=loads(), seed=st.integers(0, 50), cost=st.sampled_from([0.0, 20.0]))
def test_no_gpu_is_held_twice_and_work_is_conserved(
    spec: PublishedSpec, load: Workload, seed: int, cost: float
) -> None:
    round_s = 30.0 if spec.order != "fifo" and spec.fill != "easy" else 0.0
    rules = ClusterRules(round_s=round_s, restart_cost_s=cost)
    table = scores(seed)
    watched = Watched(scheduler_for(spec, Setting(CLUSTER, 1.7, rules, True), table, seed), rules)
    outcome = Engine(CLUSTER, table, load, watched, rules).run()
    truth = Speeds(CLUSTER, table)
    works = {work.id: work for work in load.works}
    steps = dict.fromkeys(works, 0.0)
    for part, until in watched.done:
        useful = max(until - part.begin - part.cost, 0.0)
        steps[part.job] += useful / truth.step(works[part.job].app, part.gpus)
    for job, work in works.items():
        slack = round_s / 0.2  # in rounds, a job holds its GPUs to the end of the round
        assert work.steps - 1e-6 * work.steps <= steps[job] <= work.steps * (1 + 1e-6) + slack
    assert (outcome.start_s >= outcome.submit_s).all()
    assert (outcome.end_s > outcome.start_s).all()
    held = sum((until - part.begin) * len(part.gpus) for part, until in watched.done)
    assert outcome.gpu_seconds == pytest.approx(held)


@pytest.mark.parametrize("fill", ["none", "easy", "holes"])
@pytest.mark.parametrize("order", ["fifo", "las", "srtf"])
@settings(deadline=None, max_examples=25)
@given(load=loads(), seed=st.integers(0, 50), share=st.sampled_from([0.0, 0.5]))
def test_who_may_not_be_moved_runs_in_one_piece(fill: str, order: str, load: Workload, seed: int, share: float) -> None:
    rules = ClusterRules(round_s=30.0)
    load, table = load.movable(share, seed), scores(seed, spread=0.4)
    spec = PublishedSpec(policy="reassign", fill=fill, order=order, moves=True)
    watched = Watched(scheduler_for(spec, Setting(CLUSTER, 1.7, rules, True), table, seed), rules)
    outcome = Engine(CLUSTER, table, load, watched, rules).run()
    pieces = Counter(part.job for part, _ in watched.done)
    assert all(pieces[work.id] == 1 for work in load.works if not work.requeue)
    if share == 0.0:
        assert (outcome.moves, outcome.restarts) == (0, 0)


@settings(deadline=None, max_examples=60)
@given(load=loads(), seed=st.integers(0, 50), first=st.integers(0, 11))
def test_utilisation_counts_what_was_held_within_the_makespan_of_those_that_count(
    load: Workload, seed: int, first: int
) -> None:
    load = load.counting(range(min(first, len(load.works) - 1), len(load.works)))
    table = scores(seed)
    watched = Watched(
        scheduler_for(SPECS[-1], Setting(CLUSTER, 1.7, ClusterRules(), True), table, seed), ClusterRules()
    )
    outcome = Engine(CLUSTER, table, load, watched, ClusterRules()).run()
    begin, end = float(outcome.submit_s.min()), float(outcome.end_s.max())
    parts = [(part, until) for part, until in watched.done] + [(part, end) for part in watched.open.values()]
    held = sum(max(min(until, end) - max(part.begin, begin), 0.0) * len(part.gpus) for part, until in parts)
    assert outcome.utilization == pytest.approx(held / (CLUSTER.n_gpus * (end - begin)))


@pytest.mark.parametrize("spec", SPECS[::3], ids=lambda spec: f"{spec.policy}-{spec.order}-{spec.fill}-{spec.moves}")
@settings(deadline=None, max_examples=5)
@given(load=loads(), seed=st.integers(0, 50))
def test_the_same_seed_gives_the_same_outcome(spec: PublishedSpec, load: Workload, seed: int) -> None:
    rules = ClusterRules(round_s=60.0, restart_cost_s=5.0)
    one, two = (simulate(spec, load, seed, rules) for _ in range(2))
    assert one.end_s.tobytes() == two.end_s.tobytes()
    assert one.start_s.tobytes() == two.start_s.tobytes()
    assert (one.moves, one.restarts, one.timeline) == (two.moves, two.restarts, two.timeline)


class Remembering(InPlanner):
    """Notes when each job for which room is kept was first promised its start."""

    promised: dict[int, float]

    def plan(self, now: float) -> Plan:
        made = super().plan(now)
        for kept in made.reserved:
            self.promised[kept.job] = min(kept.start, self.promised.get(kept.job, kept.start))
        return made


@settings(deadline=None, max_examples=60)
@given(load=loads(), seed=st.integers(0, 50), policy=st.sampled_from(["pal", "packed", "pm-first", "random(1)"]))
def test_backfill_delays_no_job_at_the_head_of_the_line(load: Workload, seed: int, policy: str) -> None:
    """Limits are six times the ideal run time, and no span and score together reach that."""
    placement = {"pal": "lv"}.get(policy, policy)
    scheduler = Remembering(
        policy, CLUSTER, scores(seed), compose("pal", order="fifo", placement=placement, patience="none")
    )
    scheduler.promised = {}
    outcome = Engine(CLUSTER, scores(seed), load, scheduler).run()
    started = dict(zip(outcome.job_ids.tolist(), outcome.start_s.tolist(), strict=True))
    for job, promised in scheduler.promised.items():
        assert started[job] <= promised + 1e-6


class RememberingBackfill(EasyBackfill):
    promised: dict[int, float]

    def plan(self, now: float) -> Plan:
        made = super().plan(now)
        for kept in made.reserved:
            self.promised[kept.job] = min(kept.start, self.promised.get(kept.job, kept.start))
        return made


@settings(deadline=None, max_examples=60)
@given(
    load=loads(),
    seed=st.integers(0, 50),
    policy=st.sampled_from(["artifact/pal", "artifact/packed-sticky", "reassign"]),
)
def test_bounded_filling_delays_no_job_at_the_head_of_the_line(load: Workload, seed: int, policy: str) -> None:
    spec = PublishedSpec(policy=policy, fill="easy", order="fifo", moves=True)
    table = scores(seed)
    who = RememberingBackfill(order_named("fifo"), CLUSTER.n_gpus)
    who.promised = {}
    with pytest.MonkeyPatch.context() as patch:
        for module in ("policies", "pal"):
            patch.setattr(f"benchmarks.published.{module}.admission", lambda *_, **__: who)
        scheduler = scheduler_for(spec, Setting(CLUSTER, 1.7, ClusterRules(), True), table, seed)
    outcome = Engine(CLUSTER, table, load, scheduler).run()
    started = dict(zip(outcome.job_ids.tolist(), outcome.start_s.tolist(), strict=True))
    for job, promised in who.promised.items():
        assert started[job] <= promised + 1e-6


@settings(deadline=None, max_examples=30)
@given(load=loads(), seed=st.integers(0, 50), slower=st.floats(1.0, 4.0), spec=st.sampled_from(SPECS[:1] + SPECS[-9:]))
def test_all_jobs_at_once_on_a_uniformly_slower_cluster_end_so_much_later(
    load: Workload, seed: int, slower: float, spec: PublishedSpec
) -> None:
    spec = PublishedSpec(policy=spec.policy, order="fifo", fill="none", moves=False)
    at_once = workload(replace(work, submit=0.0) for work in load.works)
    known = scores(seed)
    ends = []
    for factor in (1.0, slower):
        truth = ScoreTable(known.classes, known.score * factor, known.bins.copy(), known.known.copy())
        scheduler = scheduler_for(spec, Setting(CLUSTER, 1.7, ClusterRules(), True), known, seed)
        ends.append(Engine(CLUSTER, truth, at_once, scheduler).run().end_s)
    assert ends[1] == pytest.approx(ends[0] * slower)


@settings(deadline=None)
@given(gpus=st.sampled_from([1, 2, 4, 8]), seed=st.integers(0, 50), spec=st.sampled_from(SPECS))
def test_a_job_alone_ends_no_later_on_a_faster_cluster(gpus: int, seed: int, spec: PublishedSpec) -> None:
    load = workload([Work(0, 0.0, gpus, 100.0, APPS[0], 1000.0)])
    known = scores(seed)
    rng = np.random.default_rng([seed, 1])
    faster = ScoreTable(known.classes, known.score * rng.uniform(0.5, 1.0, known.score.shape), known.bins, known.known)
    ends = []
    for truth in (known, faster):
        scheduler = scheduler_for(spec, Setting(CLUSTER, 1.7, ClusterRules(60.0), True), known, seed)
        ends.append(float(Engine(CLUSTER, truth, load, scheduler, ClusterRules(60.0)).run().end_s[0]))
    assert ends[1] <= ends[0]


def test_a_change_of_true_speed_bends_the_course_of_running_jobs() -> None:
    load = workload([Work(0, 0.0, 1, 100.0, APPS[0], 1000.0)])
    ones = np.ones((2, NODES, WIDTH))
    change = Change(50.0, truth=binned(("A", "B"), ones * 2), known=binned(("A", "B"), ones * 2))
    for policy in ("packed", "pal", "reassign", "artifact/pal"):
        scheduler = scheduler_for(
            PublishedSpec(policy=policy), Setting(CLUSTER, 1.7, ClusterRules(), True), binned(("A", "B"), ones), 0
        )
        outcome = Engine(CLUSTER, binned(("A", "B"), ones), load, scheduler, ClusterRules(), [change]).run()
        assert outcome.end_s.tolist() == [150.0]


def test_a_checkpoint_bounds_what_a_stopped_job_loses() -> None:
    """LAS stops the long job when a new one comes; it has run 90 s and its last checkpoint was at 60 s."""
    one = homogeneous(1, 1)
    load = workload([Work(0, 0.0, 1, 200.0, APPS[0]), Work(1, 70.0, 1, 60.0, APPS[0])])
    table = binned(("A", "B"), np.ones((2, 1, 1)))
    ends = {}
    for checkpoint in (0.0, 60.0):
        rules = ClusterRules(round_s=30.0, checkpoint_s=checkpoint)
        spec = PublishedSpec(policy="artifact/packed-sticky", order="las", fill="none")
        setting = Setting(one, 1.7, rules, True)
        ends[checkpoint] = Engine(one, table, load, scheduler_for(spec, setting, table, 0), rules).run().end_s.max()
    assert ends[60.0] == ends[0.0] + 30.0


@pytest.mark.parametrize("first", [False, True])
def test_a_first_start_costs_as_much_as_a_restart_where_that_is_said(first: bool) -> None:
    table = binned(("A", "B"), np.ones((2, NODES, WIDTH)))
    load = workload([Work(i, 10.0 * i, 1, 100.0, APPS[0]) for i in range(3)])
    rules = ClusterRules(restart_cost_s=60.0, first_start_cost=first)
    scheduler = scheduler_for(PublishedSpec(policy="packed"), Setting(CLUSTER, 1.7, rules, False), table, 0)
    outcome = Engine(CLUSTER, table, load, scheduler, rules).run()
    assert (outcome.end_s - outcome.start_s).tolist() == [160.0 if first else 100.0] * 3
    assert outcome.figures()["starts_per_job"] == 1.0


def test_a_job_that_fits_only_unevenly_runs_as_slurm_would_split_it() -> None:
    two, table = homogeneous(2, 2), binned(("A", "B"), np.ones((2, 2, 2)))
    load = workload([Work(0, 0.0, 3, 100.0, APPS[0], 300.0), Work(1, 1.0, 1, 10.0, APPS[0], 30.0)])
    scheduler = scheduler_for(PublishedSpec(policy="packed"), Setting(two, 1.7, ClusterRules(), False), table, 0)
    assert Engine(two, table, load, scheduler).run().end_s.tolist() == [170.0, 11.0]
