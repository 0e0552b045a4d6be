"""Sites drawn from a number, as plans.py plans for them: a cluster, its users, their jobs, cycle by cycle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pal_slurm.config import Config
from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.proposing import proposals
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round
from pal_slurm.guard import MoveRules, Rules
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Consent,
    Decision,
    FairShares,
    Given,
    Hint,
    Job,
    JobKind,
    JobState,
    Knowledge,
    Lease,
    Placement,
    Request,
    Reservation,
    RunTimes,
    ScoreTable,
    Shape,
    Sharers,
    Sharing,
    Snapshot,
    Waits,
)
from pal_slurm.policy import Circumstances, Plan, compose, plan
from pal_slurm.policy.entitlement.due_now import due_now
from pal_slurm.policy.exclusion import Exclusion, ExclusionRules, exclusions
from pal_slurm.policy.memory import Memory, memory_of
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.slurm.port import Passes

KEYS = Config(moves=MovesSection(margin=1.0))
NOW = 1_800_000_000
ALIKE = ("4x4", "6x2", "8x4/2", "12x4/4", "3x8", "16x1/4", "20x4/5/10")
MIXED = ("fast:3x4+slow:3x4", "fast:2x2+mid:2x4+slow:4x2", "fast:8x1+slow:8x1", "fast:6x4+mid:6x4+slow:6x4")
POLICIES: tuple[tuple[str, dict[str, str]], ...] = (
    ("pal", {}), ("pal", {"order": "fifo"}), ("gavel/max-min", {}), ("pal", {"patience": "none"}),
    ("pal", {"pools": "best"}), ("packed", {}), ("gavel/hierarchical", {}), ("pal", {"placement": "lv"}),
    ("pal", {"fill": "none"}), ("gavel/cost-slo", {}), ("pm-first", {"patience": "earlier-finish"}),
    ("dally", {"patience": "dally(60,24,2,4)"}), ("packed", {"patience": "fixed(300,900)"}), ("gavel/finish-time", {}),
    ("pal", {}), ("packed", {"pools": "prices"}),
)  # fmt: skip
BASES = {
    "a": {"fast": 1.0, "mid": 2.0, "slow": 6.0}, "b": {"fast": 1.0, "mid": 1.1, "slow": 1.3}, "c": {},
    "d": {"fast": 2.0, "mid": 1.0, "slow": 4.0},
}  # fmt: skip
BESIDE = {("a", "a"): 1.5, ("a", "b"): 1.2, ("b", "a"): 1.1, ("b", "b"): 1.3}  # the first beside the second


class Site:
    """What is true of a drawn cluster, its users, its jobs."""

    def __init__(self, number: int) -> None:
        self.rng, draw = random.Random(number), np.random.default_rng(number)
        rng = self.rng
        self.mixed, self.excludes, self.calm = rng.random() < 0.4, rng.random() < 0.1, rng.random() < 0.7
        self.shares, self.movable = rng.random() < 0.2, rng.choice((0.0, 0.4, 1.0, 1.0))
        self.cluster = self._cluster(draw)
        self.knowledge = self._knowledge(draw)
        name, parts = POLICIES[number % len(POLICIES)]
        self.composition = compose(name, **parts)
        self.window = Reservation("maint", frozenset({"n1", "n2"}), NOW + rng.choice((0, 6000)), NOW + 20_000)
        self.windows = (self.window,) if rng.random() < 0.25 else ()
        self.fair = FairShares({"big": 0.7, "small": 0.3}, deadlines=dict.fromkeys(range(3, 99, 7), NOW + 9000.0))
        self.times = RunTimes()
        for _ in range(rng.choice((0, 30, 300))):
            limit = rng.choice((900.0, 7200.0, 40_000.0))
            self.times.ended(f"u{rng.randint(1, 4)}", rng.choice("abcd"), "", limit, limit * rng.uniform(0.1, 0.8))
        self.now, self.number, self.memory = float(NOW), 0, Memory()
        self.waiting: dict[int, Job] = {}
        self.running: dict[int, Job] = {}
        self.ends: dict[int, float] = {}  # by running job: when it really does
        self.pinned: dict[int, Placement] = {}  # pending in Slurm, its start was sent in the last cycle
        self._begins()

    def _cluster(self, draw: np.random.Generator) -> Cluster:
        cluster = parse_cluster(self.rng.choice(MIXED if self.mixed else ALIKE))
        n, shape = cluster.n_nodes, cluster.gpu_exists.shape
        linked = draw.integers(0, 2, shape) if self.rng.random() < 0.2 else None
        parts = np.where(cluster.gpu_exists, 2, 0) if self.shares else None
        every = np.ones(n, dtype=np.bool_)
        return replace(
            cluster, partitions={"gpu": every, "few": draw.random(n) < 0.6}, node_ok=draw.random(n) < 0.95,
            slots=self.shares or self.rng.random() < 0.7, linked=linked, parts=parts,
            cpus=np.full(n, 32), cpus_free=np.full(n, 32), mem_mb=np.full(n, 64_000), mem_free_mb=np.full(n, 64_000),
            features=tuple(frozenset({cluster.models[m]}) for m in cluster.gpu_model[:, 0].tolist()),
        )  # fmt: skip

    def _knowledge(self, draw: np.random.Generator) -> Knowledge:
        rng, shape = self.rng, self.cluster.gpu_exists.shape
        bins = draw.integers(0, rng.choice((1, 3, 3, 8)), (2, *shape))
        scores = ScoreTable(
            ("A", "B"), 0.8 + bins * rng.choice((0.05, 0.15, 0.3)), bins, np.ones(bins.shape, dtype=np.bool_)
        )
        comm = rng.choice(((1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.2, 1.7), (1.0, 1.05, 1.3, 1.3)))
        apps = {
            name: App(name, "AB"[name in "bd"], base if self.mixed else {}, comm, rng.choice((1.0, 1.2)))
            for name, base in BASES.items()
        }
        pairs = Sharing({
            Sharers(JobKind(one, 1), JobKind(other, 1), model): factor
            for (one, other), factor in BESIDE.items() for model in self.cluster.models
        })  # fmt: skip
        return (
            Knowledge(scores, Apps(apps, apps["a"]), pairs=pairs)
            if self.shares
            else Knowledge(scores, Apps(apps, apps["a"]))
        )

    def _arrives(self) -> None:
        rng, self.number = self.rng, self.number + 1
        number, now, width = self.number, int(self.now), self.cluster.width
        nodes = rng.choice((1, 1, 1, 1, 2, 3))
        each = min(width, rng.choice((1, 1, 2, 4, 8)))
        if self.shares and rng.random() < 0.8:
            nodes = each = 1
        shape = Shape(nodes, nodes, gpus_per_node=each, cpus=nodes * rng.choice((1, 4)), mem_per_node_mb=2000)
        if rng.random() < 0.2:
            shape = Shape(1, rng.choice((1, 2, 4)), gpus=rng.choice((1, 2, 3, 4)), cpus=rng.choice((1, 4)))
        user = 1 if self.shares else rng.randint(1, 4)
        job = Job(
            number, JobState.PENDING, now - rng.choice((0, 100)), f"u{user}", ("big", "small")[user % 2],
            partitions=rng.choice((("gpu",), ("gpu",), ("gpu",), ("few",), ("few", "gpu"))),
            priority=rng.choice((1, 1, 2)), eligible=now + 10**6, why=Waits.BEGIN, shape=shape, gpu_job=True,
            requeue=True, batch=1, cpus_alloc=shape.cpus,
            time_limit_s=rng.choice((7200 if self.calm else 900, 7200, 40_000, 90_000, None)),
            hint=Hint(rng.choice("ab" if self.shares else "abcd"), rng.random() < 0.03, share=self.shares),
            lease=Lease(now + 10**6, Request(), asked_to_share=self.shares),
            consent=self._consent(), by_part=self.shares and shape.least_gpus == 1,
            excluded_nodes="n3" if rng.random() < 0.05 else "",
        )  # fmt: skip
        kind = rng.random()
        if self.excludes or kind < 0.06:  # nobody leases it
            job = replace(job, lease=None, eligible=now - 1, why=Waits.ROOM, partitions=job.partitions[:1])
        elif kind < 0.14:
            tasks = tuple(range(rng.randint(2, 6)))
            job = replace(job, array_id=number, array_tasks=tasks, array_limit=rng.choice((None, 2)))
            self.number += 10
        elif kind < 0.17:
            job = replace(job, lease=Lease(now + 300, Request(), not_before=now + 300), eligible=now + 300)
        elif kind < 0.19:
            job = replace(job, exclusive=True)
        elif kind < 0.21:
            job = replace(job, why=Waits.OWN_LIMIT, dependency="afterany:1")
        elif kind < 0.25 and self.mixed:
            model = rng.choice(self.cluster.models)
            job = replace(job, types=(model,), features=model)
        self.waiting[number] = job

    def _consent(self) -> Consent:
        if self.rng.random() >= self.movable:
            return Consent()
        asked = self.rng.random() < 0.1
        return Consent(
            Given.ASKED, self.rng.choice((None, 20, 400)), "USR1" if asked else "", ahead_s=30 if asked else 0
        )

    def passes(self) -> None:
        """Time goes by: who was let start runs, some end, some come."""
        rng = self.rng
        for number in [number for number in self.pinned if rng.random() < 0.7]:
            self._runs(self.waiting.pop(number), self.pinned.pop(number))
        self.now += rng.choice((20.0, 400.0, 2000.0, 6000.0))
        for number in [number for number, end in self.ends.items() if end <= self.now]:
            job = self.running.pop(number)
            del self.ends[number]
            self.times.ended(
                job.user, job.hint.app or "", "", float(job.time_limit_s or 0), self.now - (job.start or 0)
            )
        for number in [number for number, job in self.waiting.items() if job.lease is None and rng.random() < 0.4]:
            del self.waiting[number]  # the same
        most = self.cluster.n_gpus * (0.3 if self.calm else 1.5)
        few = self.calm and len(self.running) > self.cluster.n_gpus // 4
        for _ in range(rng.choice((0, 0, 0, 1)) if few else rng.randint(0, 2 + self.cluster.n_gpus // 3)):
            if sum(job.shape.least_gpus for job in self.waiting.values() if job.shape) > most:
                break
            self._arrives()

    def _runs(self, job: Job, where: Placement) -> None:
        start, gpus = int(self.now), where.gpus
        end = None if job.time_limit_s is None else start + job.time_limit_s
        self.running[job.id] = replace(
            job, state=JobState.RUNNING, nodes=where.nodes, gpus=((),) if where.shard else gpus, start=start, end=end,
            parts=gpus if where.shard else (), cpus_alloc=job.cpus_alloc, array_limit=None, shard=where.shard,
        )  # fmt: skip
        self.ends[job.id] = start + self.rng.uniform(0.05, 1.0) * (job.time_limit_s or 30_000)

    def _begins(self) -> None:
        """Before pald came some were started anywhere."""
        free = self.cluster.gpu_exists.copy()
        for _ in range(self.rng.choice((0, self.cluster.n_gpus // 2))):
            self._arrives()
        for job in list(self.waiting.values()):
            shape = job.shape or Shape()
            each = shape.least_gpus // shape.min_nodes
            rows = [row for row in range(len(free)) if free[row].sum() >= each and self.cluster.node_ok[row]]
            rows = sorted(self.rng.sample(rows, min(len(rows), shape.min_nodes)))
            if len(rows) == shape.min_nodes and not job.array_tasks and job.lease is not None:
                slots = tuple(tuple(np.flatnonzero(free[row])[-each:].tolist()) for row in rows)
                for row, of in zip(rows, slots, strict=True):
                    free[row, list(of)] = False
                del self.waiting[job.id]
                self._runs(job, Placement(tuple(self.cluster.node_names[row] for row in rows), slots, exact=True))

    def snapshot(self) -> Snapshot:
        cluster = self.cluster
        free, cpus, mem = cluster.gpu_exists.copy(), cluster.cpus.copy(), cluster.mem_mb.copy()
        parts = None if cluster.parts is None else cluster.parts.copy()
        for job in self.running.values():
            for node, slots in zip(job.nodes, job.holds, strict=True):
                row, shape = cluster.node_index[node], job.shape or Shape()
                free[row, list(slots)] = False
                cpus[row] -= shape.cpus_on_each(len(job.nodes))
                mem[row] -= shape.mem_on_each(len(job.nodes))
                if parts is not None:
                    parts[row, list(slots)] -= 1 if job.parts else 2
        now = replace(cluster, gpu_free=free, cpus_free=cpus, mem_free_mb=mem, parts_free=parts)
        pending, running = list(self.waiting.values()), list(self.running.values())
        self.rng.shuffle(pending)
        self.rng.shuffle(running)
        return Snapshot(self.now, now, tuple(pending), tuple(running), self.windows)

    def cycle(self) -> tuple[Plan, list[Decision], list[Exclusion]]:
        """One: the plan, moves as if nobody started, nodes that jobs are kept off."""
        self.passes()
        view = self.snapshot()
        entitlement, due = self.composition.entitlement, None
        if entitlement is not None:
            found = due_now(entitlement, view, self.knowledge, self.fair, self.times)
            due = replace(found, fair=self.fair).at(view, self.memory.debts)
        facts = Circumstances(released=dict(self.pinned), run_times=self.times, due=due, shares=self.shares)
        made = plan(view, self.knowledge, self.composition, facts, memory_of(self.memory.plain()))
        self.memory = made.memory
        round = Round(CycleReport(), 1, 0.0, Passes(0, 0, 0, 0, 0), view)
        round.view, round.knowledge = view, self.knowledge
        rules = Rules(disable_job_shrink=True, moves=MoveRules(share=0.5, per_user=8, first_s=10.0))
        costs = Costs(MovesSection(cost_s=20))
        wait = [d for d in made.decisions if d.action not in (Action.START, Action.PLAIN)]
        moves = proposals(round, wait, self.composition, KEYS, rules, costs, self.times, made.kept)
        if len(wait) == len(made.decisions):  # else pald moves nobody
            for d in moves:
                assert d.placement is not None
                self.running[d.job] = replace(self.running[d.job], nodes=d.placement.nodes, gpus=d.placement.gpus)
        kept_off = exclusions(view, self.knowledge, ExclusionRules(0.1, 300.0), self.times, lambda _: False)
        self._obeys(made.decisions)
        return made, moves, kept_off

    def _obeys(self, decisions: Sequence[Decision]) -> None:
        for d in decisions:
            where = d.placement or d.slurm_placement
            if d.action is Action.PLAIN and where is None:  # Slurm starts it somewhere else, or its user cancels it
                self.waiting.pop(d.job, None)
            if d.action not in (Action.START, Action.PLAIN) or where is None:
                continue
            job = self.waiting[d.job]
            if job.array_tasks:
                rest = tuple(task for task in job.array_tasks if task != d.task)
                self.number += 1
                self._runs(replace(job, id=self.number, array_task=d.task, array_tasks=()), where)
                self.waiting[d.job] = replace(job, array_tasks=rest)
                if not rest:
                    del self.waiting[d.job]
            elif d.action is Action.START and self.rng.random() < 0.3:
                self.pinned[d.job] = where  # it has not started yet when the next plan is made
            else:
                self._runs(self.waiting.pop(d.job), where)
