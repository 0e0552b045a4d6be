"""A planner that moves what runs plans alike, whether it is told of events or made of the queue and its memory.

150 random days, drawn from their numbers, for each way to move and each rule of who runs: jobs that may be moved and
jobs that may not, jobs without a limit, moves and stops.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pal_slurm.model import (
    Action,
    App,
    Apps,
    Hint,
    Job,
    JobKind,
    JobState,
    Knowledge,
    Placement,
    ScoreTable,
    Shape,
    Sharers,
    Sharing,
    Snapshot,
)
from pal_slurm.policy import Circumstances, Plan, Planner, Progress, compose, plan
from pal_slurm.policy.memory import Memory, memory_of
from pal_slurm.policy.moving.pools import Pools
from pal_slurm.policy.pools import where as pool_match
from pal_slurm.sim.clusters import parse_cluster

T0 = 1_000_000
DAYS, BLOCK = 150, 25


@pytest.fixture(autouse=True)
def _time_to_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that runs out of time answers otherwise on a busy machine."""
    monkeypatch.setattr(pool_match, "SOLVE_S", 600.0)


ALIKE = ("4x1", "3x2", "2x4")
MIXED = ("fast:1x2+slow:2x2", "fast:2x1+slow:3x1", "fast:1x4+mid:1x4+slow:1x4")
WAYS = [
    *(("assign", fill, order) for fill in ("easy", "none", "holes") for order in ("fifo", "las", "slurm")),
    ("pools", "easy", "fifo"), ("pools", "easy", "las"), ("pools", "easy", "srtf"),
    ("sharing", "easy", "fifo"), ("sharing", "easy", "las"), ("sharing", "easy", "srtf"),
]  # fmt: skip
BESIDE = {("A", "A"): 1.5, ("A", "B"): 1.2, ("B", "A"): 1.1, ("B", "B"): 1.3}  # the first beside the second
PAIRS = Sharing({
    Sharers(JobKind(a, n), JobKind(b, n), model): factor
    for (a, b), factor in BESIDE.items() for n in (1, 2, 4) for model in ("fast", "mid", "slow")
})  # fmt: skip


class MovingDay:
    """What is true, and a planner that is told of it."""

    def __init__(self, seed: int) -> None:
        self.rng, draw = random.Random(seed), np.random.default_rng(seed)
        moving, fill, order = WAYS[seed % len(WAYS)]
        self.shares, moving = moving == "sharing", moving.replace("sharing", "pools")
        self.composition = compose("pal", order=order, fill=fill, moving=moving)
        if self.shares:
            self.composition = replace(self.composition, moving=Pools(learns=False, sharing=PAIRS))
        self.cluster = parse_cluster(self.rng.choice(MIXED if moving == "pools" else ALIKE))
        bins = draw.integers(0, 3, (2, *self.cluster.gpu_exists.shape))
        scores = ScoreTable(("A", "B"), 0.8 + bins / 4, bins, np.ones(bins.shape, dtype=np.bool_))
        base = {"A": {"fast": 1.0, "mid": 2.0, "slow": 6.0}, "B": {"fast": 1.0, "mid": 1.1, "slow": 1.3}}
        apps = {cls: App(cls, cls, base[cls], (1.0, 1.0, 1.3, 1.7)) for cls in "AB"}
        self.knowledge = Knowledge(scores, Apps(apps, apps["A"]))
        self.bound = set[int]()  # who may not be moved
        self.share = 0.0 if moving == "pools" else self.rng.choice((0.0, 0.3, 1.0))  # of those
        self.facts = Circumstances(
            alone=True, movable=lambda job: job.id not in self.bound, move_cost_s=60.0, progress=self.progress
        )
        self.now, self.number = float(T0), 0
        self.waiting: dict[int, Job] = {}
        self.running: dict[int, tuple[Job, Placement]] = {}
        self.attained: dict[int, float] = {}  # before the present start
        self.memory = Memory()
        self.planner = Planner(self.composition, self.cluster, self.knowledge, now=self.now, facts=self.facts)

    def progress(self, job: Job, now: float) -> Progress:
        ran = self.attained.get(job.id, 0.0)
        if job.id in self.running:
            ran += max(0.0, now - (self.running[job.id][0].start or now))
        rest = max(1.0, 1000.0 * (1 + job.id % 7) - ran)
        return Progress(attained_s=ran, done_s=ran, remaining_s=rest, rest_steps=rest)

    def arrives(self) -> None:
        rng, self.number = self.rng, self.number + 1
        gpus = rng.choice((1, 1, 1, 2, 2, 4 if self.cluster.width > 1 else 3))
        job = Job(
            self.number, JobState.PENDING, int(self.now), "u", priority=rng.choice((1, 1, 2)), gpu_job=True,
            time_limit_s=rng.choice((300, 900, 900, 3600, 7200, None)),
            hint=Hint(rng.choice("AB"), share=self.shares and self.number % 4 != 0),
            shape=Shape(1, gpus, gpus=gpus),
        )  # fmt: skip
        if rng.random() < self.share:
            self.bound.add(job.id)
        self.waiting[job.id] = job
        self.planner.arrive(job)

    def snapshot(self) -> Snapshot:
        """The records as they come: in no order of ours."""
        pending, running = list(self.waiting.values()), [job for job, _ in self.running.values()]
        self.rng.shuffle(pending)
        self.rng.shuffle(running)
        return Snapshot(self.now, self.cluster, tuple(pending), tuple(running))

    def ends(self, job: int) -> None:
        del self.running[job]
        self.planner.ended(job)

    def _runs(self, job: Job, where: Placement, end: int | None) -> None:
        ran = replace(job, state=JobState.RUNNING, nodes=where.nodes, gpus=where.gpus, start=int(self.now), end=end)
        self.running[job.id] = (ran, where)
        self.planner.started(ran, where, math.inf if end is None else float(end))

    def obeys(self, made: Plan) -> None:
        for d in made.moves:
            job, _ = self.running.pop(d.job)
            self.attained[d.job] = self.attained.get(d.job, 0.0) + self.now - (job.start or 0)
            if d.action is Action.STOP:
                self.waiting[d.job] = replace(job, state=JobState.PENDING, nodes=(), gpus=(), start=None, end=None)
            else:
                assert d.action is Action.MOVE and d.job not in self.bound and d.placement is not None
                self._runs(job, d.placement, job.end)
        for d in made.starts:
            assert d.placement is not None
            job = self.waiting.pop(d.job)
            self._runs(job, d.placement, None if job.time_limit_s is None else int(self.now) + job.time_limit_s)
        held = [gpu for job, where in self.running.values() for gpu in zip(where.nodes, where.gpus, strict=True)]
        slots = [(node, slot) for node, slots in held for slot in slots]
        most = 2 if self.shares else 1
        assert max(Counter(slots).values(), default=0) <= most
        self.couples = len(slots) - len(set(slots))

    def passes(self) -> None:
        """Time goes by until something happens."""
        if self.running and self.rng.random() < 0.5:
            self.now += self.rng.choice((1.0, 200.0, 1000.0))
            self.ends(self.rng.choice(sorted(self.running)))
        else:
            self.now += self.rng.choice((0.0, 20.0, 400.0))
            for _ in range(self.rng.choice((1, 1, 3))):
                self.arrives()


def told(made: Plan) -> tuple[object, ...]:
    decided = sorted((d.job, d.action, d.placement) for d in (*made.moves, *made.starts))
    return decided, [(d.job, d.action, d.reason, d.rank) for d in made.decisions]


@pytest.mark.every(3)
@pytest.mark.parametrize("block", range(DAYS // BLOCK))
def test_a_planner_that_moves_and_is_told_of_events_plans_as_one_made_of_the_queue_does(block: int) -> None:
    seen = {"moves": 0, "stops": 0, "couples": 0}
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        day = MovingDay(seed)
        for event in range(14):
            day.passes()
            view = day.snapshot()
            mine = day.planner.act(day.now)
            fresh = plan(view, day.knowledge, day.composition, day.facts, memory_of(day.memory.plain()))
            assert told(mine) == told(fresh), f"day {seed}, event {event}"
            assert mine.memory == fresh.memory, f"day {seed}, event {event}"
            day.memory = mine.memory
            day.obeys(mine)
            seen["moves"] += sum(d.action is Action.MOVE for d in mine.moves)
            seen["couples"] += day.couples
            seen["stops"] += sum(d.action is Action.STOP for d in mine.moves)
    assert min(seen.values()) > 0
