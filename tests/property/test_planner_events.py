"""One planner that is told of events and one that is made of the queue as it stands give the same plan, at every event.

350 random days of small clusters, drawn from their numbers: a failing one is drawn again by its number. Jobs of ours
with leases, arrays, jobs that nobody leases, reservations, jobs that decline, jobs without a limit. 150 more days, on
which jobs are moved, are in test_planner_moves.py.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from pal_slurm.guard import Permit, Rules, check
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Decision,
    Hint,
    Job,
    JobState,
    Knowledge,
    Lease,
    Placement,
    Request,
    Reservation,
    ScoreTable,
    Shape,
    Snapshot,
    Waits,
    homogeneous,
)
from pal_slurm.policy import Circumstances, Composition, Floor, Plan, Planner, compose, plan
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.memory import Memory
from pal_slurm.scores import binned
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import Engine
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.workload import Work, workload

T0 = 1_000_000
BLOCK = 25
FAR = T0 + 10**6
COMPOSITIONS = [
    compose("pal"), compose("packed"), compose("pal", fill="none"), compose("pal", order="fifo", placement="lv"),
    compose("pal", order="fifo"), compose("pm-first", patience="earlier-finish"), compose("pal"),
    compose("packed", patience="earlier-finish"), compose("packed", patience="fixed(300,900)"),
    compose("dally", patience="dally(60,24,2,4)"),
]  # fmt: skip


class Day:
    """What is true, and a planner that is told of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        draw, rng = np.random.default_rng(seed), self.rng
        nodes, width = rng.randint(1, 5), rng.randint(1, 4)
        half = np.arange(nodes) % 2 == 0
        self.cluster = replace(
            homogeneous(nodes, width, rack_size=rng.choice((0, 2)), cpus=8, mem_mb=1000),
            partitions={"gpu": np.ones(nodes, dtype=np.bool_), "few": half},
            node_ok=draw.random(nodes) < 0.9,
            slots=rng.random() < 0.7,
        )
        bins = draw.integers(0, 3, (2, nodes, width))
        scores = ScoreTable(("A", "B"), 0.8 + bins / 4, bins, np.ones(bins.shape, dtype=np.bool_))
        apps = {cls: App(cls, cls, {}, (1.0, 1.0, 1.2, rng.choice((1.2, 1.7)))) for cls in "AB"}
        self.knowledge = Knowledge(scores, Apps(apps, apps["A"]))
        self.composition = COMPOSITIONS[seed % len(COMPOSITIONS)]
        window = Reservation("maint", frozenset({"n1"}), T0 + 3000, T0 + 9000)
        self.windows = (window,) if rng.random() < 0.3 else ()
        self.facts = Circumstances(alone=rng.random() < 0.3)
        for _ in range(rng.choice((0, 40))):
            self.facts.run_times.ended("u", rng.choice("AB"), "", 1000.0, rng.choice((300.0, 400.0)))
        self.now, self.number = float(T0), 0
        self.waiting: dict[int, Job] = {}
        self.running: dict[int, tuple[Job, Placement, float]] = {}  # and when it really ends
        self.memory = Memory()
        self.planner = Planner(
            self.composition, self.cluster, self.knowledge, now=self.now, reservations=self.windows, facts=self.facts
        )

    def arrives(self) -> None:
        rng, self.number = self.rng, self.number + 1
        gpus, most = rng.choice((1, 1, 1, 2, 2, 3, 4, 6)), rng.choice((1, 2, 4))
        job = Job(
            self.number, JobState.PENDING, int(self.now), "u",
            partitions=rng.choice((("gpu",), ("gpu",), ("few",), ("gpu", "few"))), priority=rng.choice((1, 1, 2)),
            eligible=FAR, why=Waits.BEGIN, time_limit_s=rng.choice((300, 900, 900, 3600, 7200, None)),
            shape=Shape(1, most, gpus=max(gpus, 1), cpus=rng.choice((1, 2, 4))), gpu_job=True,
            hint=Hint(rng.choice("AB"), off=not self.facts.alone and rng.random() < 0.05), lease=Lease(FAR, Request()),
        )  # fmt: skip
        kind = 1.0 if self.facts.alone else rng.random()
        if kind < 0.15:  # nobody leases it
            job = replace(job, lease=None, eligible=int(self.now) - 1, why=Waits.ROOM)
        elif kind < 0.25:
            tasks, most_at_once = tuple(range(rng.randint(2, 4))), rng.choice((None, 2))
            job = replace(job, array_id=self.number, array_tasks=tasks, array_limit=most_at_once)
            self.number += 10
        elif kind < 0.3:  # its lease runs out, or its user wants it later
            soon = int(self.now) + rng.choice((40, 300))
            lease = Lease(soon, Request(), not_before=soon if rng.random() < 0.5 else None)
            job = replace(job, lease=lease, eligible=soon)
        elif kind < 0.33:
            job = replace(job, exclusive=True)
        job = self.drawn(job)
        self.waiting[job.id] = job
        self.planner.arrive(job)

    def drawn(self, job: Job) -> Job:
        return job

    def ends(self, job: int) -> None:
        del self.running[job]
        self.planner.ended(job)

    def starts(self, job: Job, where: Placement) -> None:
        end = None if job.time_limit_s is None else int(self.now) + job.time_limit_s
        ran = replace(
            job, state=JobState.RUNNING, nodes=where.nodes, gpus=where.gpus, end=end, lease=None, start=int(self.now)
        )
        really = self.now + self.rng.uniform(0.1, 1.0) * (job.time_limit_s or 2000)
        self.running[job.id] = (ran, where, really)
        self.waiting.pop(job.id, None)
        self.planner.started(ran, where, math.inf if end is None else float(end))

    def snapshot(self) -> Snapshot:
        floor = Floor(self.cluster, self.knowledge)
        for job, where, _ in self.running.values():
            floor.hold(job, where)
        free = replace(self.cluster, gpu_free=floor.free, cpus_free=floor.cpus_free, mem_free_mb=floor.mem_free)
        running = tuple(job for job, _, _ in self.running.values())
        return Snapshot(self.now, free, tuple(self.waiting.values()), running, self.windows)

    def obeys(self, made: Plan) -> None:
        """What the plan starts runs now, and some of what nobody leases too."""
        for d in made.starts:
            took = self.planner.running.get(d.job)  # a planner that is alone knows where
            job, where = self.waiting[d.job], d.placement or d.slurm_placement or (took and took[1])
            if where is None:  # Slurm alone knows whether it can have it
                continue
            if not job.array_tasks:
                self.starts(job, where)
                continue
            rest = tuple(task for task in job.array_tasks if task != d.task)
            self.number += 1
            self.starts(replace(job, id=self.number, array_task=d.task, array_tasks=()), where)
            if rest:
                self.waiting[job.id] = replace(job, array_tasks=rest)
                self.planner.changed(self.waiting[job.id])
            else:
                del self.waiting[job.id]
                self.planner.ended(job.id)
        for job in [job for job in self.waiting.values() if (job.eligible or 0) <= self.now and not job.array_tasks]:
            seen = self.snapshot()
            found = first_fit(job, Floor(seen.cluster, self.knowledge, now=self.now, reservations=self.windows))
            if found is not None and self.rng.random() < 0.7:
                self.starts(job, found)

    def passes(self) -> None:
        """Time goes by until something happens."""
        ends = sorted((really, job) for job, (_, _, really) in self.running.items())
        if ends and self.rng.random() < 0.5:
            self.now = max(self.now, float(math.ceil(ends[0][0])))
            self.ends(ends[0][1])
        else:
            self.now += self.rng.choice((0.0, 20.0, 400.0))
            for _ in range(self.rng.choice((1, 1, 3))):
                self.arrives()


MIXED = ("fast:1x2+slow:2x2", "fast:2x1+slow:3x1", "fast:1x4+mid:1x4+slow:1x4", "fast:2x4+slow:1x2")
BY_MODEL = [
    compose("pal"), compose("pal", pools="best"), compose("pal", patience="none"), compose("pal", order="fifo"),
    compose("packed", pools="prices"), compose("pal", fill="none", pools="prices"),
]  # fmt: skip


class MixedDay(Day):
    """Of several GPU models, on which applications are not alike fast; some jobs name models, or keep to one."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        rng, draw = self.rng, np.random.default_rng(seed)
        cluster = parse_cluster(rng.choice(MIXED))
        self.cluster = replace(
            cluster,
            partitions={"gpu": np.ones(cluster.n_nodes, dtype=np.bool_), "few": np.arange(cluster.n_nodes) % 2 == 0},
            node_ok=draw.random(cluster.n_nodes) < 0.9, slots=rng.random() < 0.7,
            features=tuple(frozenset({cluster.models[model]}) for model in cluster.gpu_model[:, 0].tolist()),
        )  # fmt: skip
        bins = draw.integers(0, 3, (2, *cluster.gpu_exists.shape))
        scores = ScoreTable(("A", "B"), 0.8 + bins / 4, bins, np.ones(bins.shape, dtype=np.bool_))
        base = {"A": {"fast": 1.0, "mid": 2.0, "slow": 6.0}, "B": {"fast": 1.0, "mid": 1.1, "slow": 1.3}}
        apps = {cls: App(cls, cls, base[cls], (1.0, 1.0, 1.2, 1.7)) for cls in "AB"}
        self.knowledge = Knowledge(scores, Apps(apps, apps["A"]))
        self.composition = BY_MODEL[seed % len(BY_MODEL)]
        self.planner = Planner(
            self.composition, self.cluster, self.knowledge, now=self.now, reservations=self.windows, facts=self.facts
        )

    def drawn(self, job: Job) -> Job:
        if self.rng.random() < 0.3:
            models = self.rng.sample(self.cluster.models, self.rng.choice((1, 1, 2)))
            job = replace(job, types=tuple(models[:1]) if self.rng.random() < 0.5 else (), features="|".join(models))
        return job


class BareDay(Day):
    """As the simulator without a Slurm: more comes than can start, and most of it while nothing ends."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.facts = Circumstances(alone=True)
        self.planner = Planner(
            self.composition, self.cluster, self.knowledge, now=self.now, reservations=self.windows, facts=self.facts
        )

    def passes(self) -> None:
        if self.rng.random() < 0.3:
            super().passes()
        else:
            self.now += self.rng.choice((0.0, 1.0, 30.0, 200.0))
            self.arrives()


def told(made: Plan) -> list[tuple[object, ...]]:
    """All but why those wait who declined before: they are not asked again while nothing better is there for them."""
    declined = {key.id for key in made.memory.declining}
    return [
        (d.job, d.task, d.action, (d.action is Action.WAIT and d.job in declined) or d.reason, d.placement, d.rank)
        for d in made.decisions
    ]


def permitted(starts: tuple[Decision, ...], seen: Snapshot) -> None:
    pins = [d for d in starts if d.action is Action.START]
    for verdict in check(pins, seen, Rules(disable_job_shrink=True, margin_s=0), {}):
        assert isinstance(verdict, Permit) or verdict.reason == "slot-race", verdict


def agree(day: Day, at: str) -> None:
    """One plan, made both ways; then it is done."""
    seen = day.snapshot()
    mine = day.planner.act(day.now)
    fresh = plan(seen, day.knowledge, day.composition, day.facts, day.memory)
    assert told(mine) == told(fresh), at
    assert [(r.job, r.start) for r in mine.reserved] == [(r.job, r.start) for r in fresh.reserved], at
    assert mine.wake_at <= fresh.wake_at, at
    assert mine.memory == fresh.memory, at
    permitted(fresh.starts, seen)
    day.memory = mine.memory
    day.obeys(mine)


@pytest.mark.every(3)
@pytest.mark.parametrize("block", range(350 // BLOCK))
def test_a_planner_told_of_events_plans_as_one_made_of_the_queue_does(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        day = Day(seed)
        for event in range(14):
            day.passes()
            agree(day, f"day {seed}, event {event}")


@pytest.mark.every(3)
@pytest.mark.parametrize("block", range(100 // BLOCK))
def test_so_does_one_of_a_mixed_cluster(block: int) -> None:
    for seed in range(2000 + block * BLOCK, 2000 + (block + 1) * BLOCK):
        day = MixedDay(seed)
        for event in range(14):
            day.passes()
            agree(day, f"day {seed}, event {event}")


@pytest.mark.every(3)
@pytest.mark.parametrize("block", range(100 // BLOCK))
def test_so_does_one_that_is_alone_with_a_growing_queue(block: int) -> None:
    for seed in range(1000 + block * BLOCK, 1000 + (block + 1) * BLOCK):
        day = BareDay(seed)
        for event in range(40):
            day.passes()
            agree(day, f"day {seed}, event {event}")


class InPlannerTwice(InPlanner):
    """The simulator's own scheduler; each plan of it is made once more from the queue as it stands."""

    plans = 0

    def __init__(self, cluster: Cluster, scores: ScoreTable, composition: Composition, apps: Apps) -> None:
        super().__init__("twice", cluster, scores, composition)
        self.world = (cluster, Knowledge(scores, apps), composition)
        self.memory, self.ends = Memory(), dict[int, float]()

    def plan(self, now: float) -> Plan:
        cluster, known, composition = self.world
        floor, pending, running = Floor(cluster, known), [], []
        for run in self._runs.values():
            job = replace(run.job, lease=Lease(FAR, Request()), eligible=FAR, why=Waits.BEGIN)
            if not run.gpus:
                pending.append(job)
                continue
            where = self._planner.running[job.id][1]
            floor.hold(job, where)
            began = math.floor(run.started)
            ran = replace(job, state=JobState.RUNNING, nodes=where.nodes, gpus=where.gpus, lease=None, start=began)
            running.append(replace(ran, end=self.ends[job.id]))  # type: ignore[arg-type]  # to the fraction of a second
        free = replace(cluster, gpu_free=floor.free, cpus_free=floor.cpus_free, mem_free_mb=floor.mem_free)
        seen = Snapshot(now, free, tuple(pending), tuple(running))
        mine = super().plan(now)
        fresh = plan(seen, known, composition, self._planner.facts, self.memory)
        assert [(d.job, d.placement) for d in mine.starts] == [(d.job, d.placement) for d in fresh.starts]
        assert [(r.job, r.start) for r in mine.reserved] == [(r.job, r.start) for r in fresh.reserved]
        permitted(fresh.starts, seen)
        self.memory, self.plans = mine.memory, self.plans + 1
        self.ends |= {d.job: now + float(self._runs[d.job].job.time_limit_s or math.inf) for d in mine.starts}
        return mine


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(20))
def test_what_the_simulator_plans_is_what_pald_would_plan_from_its_queue(seed: int) -> None:
    rng, draw = random.Random(seed), np.random.default_rng(seed)
    cluster = homogeneous(rng.randint(2, 4), rng.choice((2, 4)), rack_size=2)
    scores = binned(("A",), np.exp(draw.normal(0, 0.1, (1, cluster.n_nodes, cluster.width))))
    app = App("a", "A", {}, (1.0, 1.0, 1.2, 1.7))
    works, at = [], 0.0
    for number in range(60):
        at += rng.expovariate(1 / 40)
        gpus, steps = rng.choice((1, 1, 1, 2, 3, 4, 4)), rng.uniform(20.0, 900.0)
        works.append(Work(number, at, gpus, steps, app, rng.choice((1.5, 3.0, 8.0)) * steps))
    composition = compose(*rng.choice((("pal",), ("packed",), ("pm-first",))), order="fifo")
    scheduler = InPlannerTwice(cluster, scores, composition, Apps({}, app))
    Engine(cluster, scores, workload(works), scheduler).run()
    assert scheduler.plans >= 2 * len(works) - 20
