"""What placement would have saved on one's own cluster. In: accounting rows, scores by node and slot. Out: GainReport.

Accounting tells how long each job ran, not how much work it had: its run time is divided by what its GPUs and their
distance made of it, as far as that is known (sacct names nodes, not devices: the expected worst of that many GPUs of
those nodes). The same jobs are then replayed as pald places them, and packed, blind to scores, with the same order and
the same backfill, several times with submissions shifted by minutes, which gives the interval. GPU hours are compared
with accounting, waiting with the packed replay: accounting's waits have causes that a replay does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model import Apps, Cluster, ScoreTable, comm_of, step_time
from pal_slurm.scores import binned
from pal_slurm.sim.accounted import LIMIT_FACTOR, works_of
from pal_slurm.sim.compare import Column, Interval, compare, interval
from pal_slurm.sim.engine import ClusterRules, OnProgress
from pal_slurm.sim.policies import PolicySpec, Setting
from pal_slurm.sim.traces.sacct import Ran
from pal_slurm.sim.workload import Workload, workload
from pal_slurm.sim.worlds import World

SHIFT_S = 300.0  # submissions are shifted by up to so much in a replay
WORTH = 0.01  # less than 1 % is called no gain


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the GPUs of one class lie apart."""

    cls: str
    low: float  # 5 % of the GPUs are faster
    high: float  # 5 % are slower
    worst: float
    worst_gpu: str
    known: int
    outliers: int  # slower than 1.3


@dataclass(frozen=True, slots=True)
class MovingGain:
    """What moving running jobs would add, if every job could be moved at that cost."""

    cost_s: float  # a move: the job does nothing for so long
    moves_per_job: float
    saved_gpu_hours: Interval  # share of the accounted GPU hours, what moves cost taken off
    saved_jct: Interval  # against the packed replay
    beyond_pal: Interval  # of the time from submission to end, against pald without moves


@dataclass(frozen=True, slots=True)
class GainReport:
    jobs: int
    users: int
    nodes: int
    gpus: int
    days: float
    load: float  # GPU hours used over those there were
    spreads: tuple[Spread, ...]
    gpu_hours: float  # as accounted
    saved_gpu_hours: Interval  # share of the accounted GPU hours
    packed_gpu_hours: Interval  # the same by packing alone, blind to scores
    saved_jct: Interval  # share of the mean time from submission to end, against the packed replay
    most: float  # share of GPU hours that no placement can exceed: every job on the best GPUs, near each other
    verdict: str
    assumptions: tuple[str, ...]
    moving: MovingGain | None = None


def estimate(
    rans: Sequence[Ran],
    cluster: Cluster,
    scores: ScoreTable,
    apps: Apps,
    locality: float,
    replays: int,
    seed: int,
    progress: OnProgress | None = None,
    move_cost_s: float | None = None,
) -> GainReport:
    """Replay the month both ways; with the cost of a move also as if all could be moved."""
    load = works_of(rans, cluster, scores, apps, (1.0, 1.0, locality, locality)).fitting(cluster.n_gpus)
    setting = Setting(cluster, locality, ClusterRules(restart_cost_s=move_cost_s or 0.0), requeue=False)
    specs = [
        PolicySpec(policy="packed", order="fifo", fill="easy"),
        PolicySpec(policy="pal", order="fifo", fill="easy", moving="none"),  # as pald: prices, where models differ
    ]
    if move_cost_s is not None:
        specs.append(PolicySpec(name="pal that moves", policy="pal", order="fifo", fill="easy", moves=True))
    packed, ours, *moving = compare(
        specs, setting, lambda s: World(_shifted(load, s), scores, scores), range(seed, seed + replays), progress
    )
    used = sum(ran.gpus * (ran.end - ran.start) for ran in rans)
    hours = interval([1.0 - outcome.gpu_seconds / used for outcome in ours.outcomes])
    blind = interval([1.0 - outcome.gpu_seconds / used for outcome in packed.outcomes])
    pairs = zip(packed.outcomes, ours.outcomes, strict=True)
    jct = interval([1.0 - mine.avg_jct_s / theirs.avg_jct_s for theirs, mine in pairs])
    span = max(ran.end for ran in rans) - min(ran.start for ran in rans)
    spreads = tuple(_spread(scores, cluster, c) for c in range(len(scores.classes)) if scores.known[c].any())
    return GainReport(
        jobs=len(rans),
        users=len({ran.user for ran in rans}),
        nodes=cluster.n_nodes,
        gpus=cluster.n_gpus,
        days=span / 86_400,
        load=used / (cluster.n_gpus * span),
        spreads=spreads,
        gpu_hours=used / 3600,
        saved_gpu_hours=hours,
        packed_gpu_hours=blind,
        saved_jct=jct,
        most=max(0.0, 1.0 - _least_gpu_seconds(load, cluster, scores) / used),
        verdict=_verdict(hours, blind, spreads, used / 3600, choice=_choice(load, cluster)),
        assumptions=(
            *_assumptions(rans, apps, scores, locality, replays, move_cost_s),
            *_of_models(load, cluster, apps),
        ),
        moving=_moving(moving[0], packed, ours, used, move_cost_s) if moving and move_cost_s is not None else None,
    )


def _moving(moving: Column, packed: Column, ours: Column, used: float, cost_s: float) -> MovingGain:
    def saved(over: Column) -> Interval:
        pairs = zip(over.outcomes, moving.outcomes, strict=True)
        return interval([1.0 - mine.avg_jct_s / theirs.avg_jct_s for theirs, mine in pairs])

    each = [(o.moves + o.restarts) / o.job_ids.size for o in moving.outcomes]
    return MovingGain(
        cost_s=cost_s,
        moves_per_job=sum(each) / len(each),
        saved_gpu_hours=interval([1.0 - o.gpu_seconds / used for o in moving.outcomes]),
        saved_jct=saved(packed),
        beyond_pal=saved(ours),
    )


def _least_gpu_seconds(load: Workload, cluster: Cluster, scores: ScoreTable) -> float:
    """Each job alone on the cluster: on as many of the best GPUs as it has, on as few nodes as hold them."""
    ordered = np.sort(scores.score.reshape(len(scores.classes), -1), axis=1)
    total = 0.0
    for work in load.works:
        worst = float(ordered[scores.index(work.app.cls), work.gpus - 1])
        tier = cluster.tier_of(tuple(range(-(-work.gpus // cluster.width))), work.gpus)
        total += work.gpus * step_time(work.ideal_s(), worst, comm_of(work.app, tier))
    return total


def _shifted(load: Workload, seed: int) -> Workload:
    shift: NDArray[np.float64] = np.random.default_rng([seed, 5]).uniform(0, SHIFT_S, len(load.works))
    works = (replace(work, submit=work.submit + s) for work, s in zip(load.works, shift.tolist(), strict=True))
    return workload(works)


def _spread(scores: ScoreTable, cluster: Cluster, c: int) -> Spread:
    known = scores.known[c]
    values = scores.score[c][known]
    flat = np.where(known, scores.score[c], -np.inf).argmax()
    row, slot = divmod(int(flat), scores.score.shape[2])
    return Spread(
        cls=scores.classes[c],
        low=float(np.percentile(values, 5)),
        high=float(np.percentile(values, 95)),
        worst=float(values.max()),
        worst_gpu=f"{cluster.node_names[row]}:{slot}",
        known=int(known.sum()),
        outliers=int((values > 1.3).sum()),
    )


def _choice(load: Workload, cluster: Cluster) -> bool:
    """Whether some job may have GPUs of another model than that on which it ran."""
    return len(cluster.models) > 1 and any(not work.model for work in load.works)


def _verdict(hours: Interval, blind: Interval, spreads: Sequence[Spread], used: float, *, choice: bool) -> str:
    if not spreads and not choice:
        return "Nothing can be said: no GPU of these nodes has a score. Profile them, or name them in --scores FILE."
    spread = "no GPU has a score, so this is by the GPU models alone"
    if spreads:
        wide = max(spreads, key=lambda spread: spread.high - spread.low)
        spread = f"the spread is {100 * (wide.high - wide.low):.0f} % (class {wide.cls}, 90 % of the GPUs)"
    if hours.mean - (hours.reach or 0.0) <= 0 or hours.mean < WORTH:
        return f"No gain: {spread}, and placement would save {round(100 * hours.mean, 1) + 0.0:.1f} % of the GPU hours."
    saved = (
        f"Placement would have saved {100 * hours.mean:.1f} % of the GPU hours: {used * hours.mean:,.0f} of {used:,.0f}"
    )
    return f"{saved}; {spread}. Packing alone, blind to scores, would have saved {100 * blind.mean:.1f} %."


def _assumptions(
    rans: Sequence[Ran], apps: Apps, scores: ScoreTable, locality: float, replays: int, move_cost_s: float | None
) -> tuple[str, ...]:
    named = sum(1 for ran in rans if ran.app in apps.known)
    limits = sum(1 for ran in rans if ran.limit_s)
    known = int(scores.known.any(axis=0).sum())
    moved = "Nothing is moved once it runs."
    if move_cost_s is not None:
        moved = f"With moves every job may be moved, to any GPUs, and then does nothing for {move_cost_s:g} s."
    return (
        f"{named} of {len(rans)} jobs name an application that is known; the others count as class {apps.default.cls}.",
        f"{known} of {scores.known[0].size} GPUs have scores, taken as they are now; the others count as median.",
        "A job's work is its accounted run time without what its nodes' GPUs and their distance are expected to cost.",
        f"A job that spans nodes runs {locality:g} times as long, unless its application says otherwise.",
        f"Both ways use first come, first served, and EASY backfill on time limits ({limits} jobs have one; "
        f"the others count {LIMIT_FACTOR:g} times their run time).",
        f"{moved} CPUs, memory, partitions, limits and priorities are left out.",
        f"{replays} replays with submissions shifted by up to {SHIFT_S / 60:g} minutes; "
        "the interval covers that chance and nothing else.",
    )


def _of_models(load: Workload, cluster: Cluster, apps: Apps) -> tuple[str, ...]:
    if len(cluster.models) == 1:
        return ()
    held = sum(1 for work in load.works if work.model)
    by_runs = {key for key, app in apps.own.items() if any(app.trust(m).source == "runs" for m in cluster.models)}
    shown = sum(1 for work in load.works if not work.model and (work.user, work.app.name) in by_runs)
    return (
        f"GPU models: {', '.join(cluster.models)}. {len(load.works) - held} of {len(load.works)} jobs run an "
        "application whose speed on each is known, and may have any; the others keep the model on which they ran.",
        f"Of those, {shown} by run times of their user's jobs of one name, limit and GPUs, three or more each.",
        "That a job asked for its model is known only where accounting has ReqTRES or Constraints; what models bill is "
        "left out.",
    )


def table_for(cluster: Cluster, placed: Mapping[tuple[str, int], Mapping[str, float]]) -> ScoreTable:
    """Scores by (node, slot) and class, aligned with the cluster; what is not there counts as median."""
    classes = tuple(sorted({cls for row in placed.values() for cls in row})) or ("A",)
    score = np.ones((len(classes), cluster.n_nodes, cluster.width))
    known = np.zeros(score.shape, dtype=np.bool_)
    for (node, slot), row in placed.items():
        at = cluster.node_index.get(node)
        if at is None or slot >= cluster.width:
            continue
        for cls, value in row.items():
            score[classes.index(cls), at, slot] = value
            known[classes.index(cls), at, slot] = True
    return binned(classes, score, known)
