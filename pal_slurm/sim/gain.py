"""What placement would have saved on one's own cluster. In: accounting rows, scores by node and slot. Out: GainReport.

Accounting tells how long each job ran, not how much work it had: its run time is divided by what its GPUs and their
distance made of it, as far as that is known (sacct names nodes, not devices: the expected worst of that many GPUs of
those nodes). The same jobs are then replayed as pald places them, and packed, blind to scores, with the same order and
the same backfill, several times with submissions shifted by minutes, which gives the interval. GPU hours are compared
with accounting, waiting with the packed replay: accounting's waits have causes that a replay does not know.

How sensitive a job is to a slow GPU is known where its application is. Where some are not, everything is worked out
twice: as if all of these were of the site's most sensitive class, and of its least sensitive one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pal_slurm.model import Cluster, ScoreTable, comm_of, step_time
from pal_slurm.scores import binned
from pal_slurm.sim.accounted import works_of
from pal_slurm.sim.accounted_evidence import seen_in
from pal_slurm.sim.compare import Column, Interval, compare, interval
from pal_slurm.sim.engine import ClusterRules, OnProgress
from pal_slurm.sim.gain_report import GainReport, Month, MovingGain, Saved, SavedBySize, Spread
from pal_slurm.sim.gain_told import assumptions, choice, of_models, verdict
from pal_slurm.sim.policies import PolicySpec, Setting
from pal_slurm.sim.workload import Workload, workload
from pal_slurm.sim.worlds import World

SHIFT_S = 300.0  # submissions are shifted by up to so much in a replay


def estimate(month: Month, replays: int, seed: int, progress: OnProgress | None = None) -> GainReport:
    """Replay the month both ways; with the cost of a move also with moves of the jobs that pald may move."""
    rans, cluster, scores, used = month.rans, month.cluster, month.scores, month.used_s
    classes = (scores.classes[0], scores.classes[-1]) if month.unknown and len(scores.classes) > 1 else ("",)
    saved = []
    for i, cls in enumerate(classes):
        one = month.with_unknown(cls or month.apps.default.cls)
        saved.append(_saved(one, cls, replays, seed, part(progress, i, len(classes))))
    span = max(ran.end for ran in rans) - min(ran.start for ran in rans)
    spreads = tuple(_spread(scores, cluster, c) for c in range(len(scores.classes)) if scores.known[c].any())
    as_first = month.with_unknown(classes[0] or month.apps.default.cls)
    load = _load(as_first)
    return GainReport(
        jobs=len(rans),
        users=len({ran.user for ran in rans}),
        nodes=cluster.n_nodes,
        gpus=cluster.n_gpus,
        days=span / 86_400,
        load=used / (cluster.n_gpus * span),
        spreads=spreads,
        gpu_hours=used / 3600,
        unknown=month.unknown,
        saved=tuple(saved),
        seen=seen_in(as_first.rans, cluster, scores, as_first.apps),
        verdict=verdict(saved, spreads, month, by_models=choice(load, cluster)),
        assumptions=(*assumptions(month, saved, replays, SHIFT_S), *of_models(load, cluster, as_first.apps)),
    )


def part(progress: OnProgress | None, done: int, of: int) -> OnProgress | None:
    """The progress of one of several comparisons."""
    if progress is None:
        return None
    return lambda now, total: progress(done * total + now, of * total)


def _load(month: Month) -> Workload:
    comm = (1.0, 1.0, month.locality, month.locality)
    load = works_of(month.rans, month.cluster, month.scores, month.apps, comm, month.moves)
    return load.fitting(month.cluster.n_gpus)


def _saved(month: Month, unknown_as: str, replays: int, seed: int, progress: OnProgress | None) -> Saved:
    load, scores, cost_s = _load(month), month.scores, month.move_cost_s
    movable = sum(work.requeue for work in load.works)
    rules = ClusterRules(restart_cost_s=cost_s or 0.0)
    setting = Setting(month.cluster, month.locality, rules, requeue=False, moves=month.moves)
    specs = [
        PolicySpec(policy="packed", order="fifo", fill="easy"),
        PolicySpec(policy="pal", order="fifo", fill="easy", moving="none"),  # as pald: prices, where models differ
    ]
    if cost_s is not None and movable:
        specs.append(
            PolicySpec(name="pal that moves", policy="pal", order="fifo", fill="easy", moving="value", moves=True)
        )
    packed, ours, *moving = compare(
        specs, setting, lambda s: World(_shifted(load, s), scores, scores), range(seed, seed + replays), progress
    )
    return Saved(
        unknown_as=unknown_as,
        saved_gpu_hours=interval([1.0 - outcome.gpu_seconds / month.used_s for outcome in ours.outcomes]),
        packed_gpu_hours=interval([1.0 - outcome.gpu_seconds / month.used_s for outcome in packed.outcomes]),
        saved_jct=_less(ours.ratio_to(packed, "avg_jct_s")),
        saved_p99_jct=_less(ours.ratio_to(packed, "p99_jct_s")),
        sizes=tuple(_by_size(packed, ours)),
        most=max(0.0, 1.0 - _least_gpu_seconds(load, month.cluster, scores) / month.used_s),
        moving=_moving(moving[0], packed, ours, month.used_s, cost_s, movable)
        if moving and cost_s is not None
        else None,
    )


def _less(ratio: Interval) -> Interval:
    return Interval(1.0 - ratio.mean, ratio.reach)


def _by_size(packed: Column, ours: Column) -> Iterator[SavedBySize]:
    pairs = [(o.sizes(), p.sizes()) for o, p in zip(ours.outcomes, packed.outcomes, strict=True)]
    for name, first in pairs[0][0].items():
        both = [(mine[name], theirs[name]) for mine, theirs in pairs]
        yield SavedBySize(
            name,
            int(first.jobs),
            interval([1.0 - mine.avg_jct_s / theirs.avg_jct_s for mine, theirs in both]),
            interval([1.0 - mine.p99_jct_s / theirs.p99_jct_s for mine, theirs in both]),
        )


def _moving(moving: Column, packed: Column, ours: Column, used: float, cost_s: float, movable: int) -> MovingGain:
    def saved(over: Column) -> Interval:
        pairs = zip(over.outcomes, moving.outcomes, strict=True)
        return interval([1.0 - mine.avg_jct_s / theirs.avg_jct_s for theirs, mine in pairs])

    each = [(o.moves + o.restarts) / o.job_ids.size for o in moving.outcomes]
    return MovingGain(
        cost_s=cost_s,
        movable=movable,
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


def table_for(
    cluster: Cluster, placed: Mapping[tuple[str, int], Mapping[str, float]], site: Sequence[str] = ()
) -> ScoreTable:
    """Scores by (node, slot) and class, aligned with the cluster; what is not there counts as median.

    `site`: its classes, most sensitive first; those that only the scores name come behind.
    """
    named = sorted({cls for row in placed.values() for cls in row} - set(site))
    classes = (*site, *named) or ("A",)
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
