"""What a run amounts to. In: what each job took and got. Out: the figures of the table and of --json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from .run import Ran
from .speeds import CLASSES, Speeds
from .workload import APPS, TIERS


@dataclass(frozen=True)
class BySpan:
    """The jobs of an application whose GPUs are so far apart."""

    jobs: int
    talked_s: float  # what the distance cost them


@dataclass(frozen=True)
class Figures:
    completed: int
    avg_jct_s: float
    p99_jct_s: float
    makespan_s: float
    utilization: float  # GPU-seconds at work / GPU-seconds until the last job ended
    jct_by_class: dict[str, float]
    pace_by_class: dict[str, float]  # mean of run time / run time on median GPUs
    late: float  # run time beyond what the GPUs' true speeds make of it: this machine's doing
    rank_by_class: dict[str, float]  # where its GPUs lay in the score order: 0 the fastest, 1 the slowest
    by_span: dict[str, dict[str, BySpan]]  # by application and tier
    moves: int = 0  # of jobs that save: how often one was started again
    twice: int = 0  # steps that were done again, as they were not yet saved
    lost: int = 0  # steps that were saved and done again, or never done
    dead_share: float = 0.0  # GPU time in which a mover did nothing / GPU time at work

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def figures(ran: Sequence[Ran], speeds: Speeds) -> Figures:
    order = sorted((scores["A"], node, slot) for node, slots in speeds.items() for slot, scores in slots.items())
    rank = {(node, slot): i / (len(order) - 1) for i, (_, node, slot) in enumerate(order)}
    jct = sorted(r.jct_s for r in ran)
    makespan = max(r.ended for r in ran) - min(r.submitted for r in ran)
    saved = [(r.job.gpus, r.worked) for r in ran if r.worked is not None]
    by_class = {c: [r for r in ran if r.job.cls == c] for c in CLASSES}
    return Figures(
        completed=len(ran),
        avg_jct_s=_mean(jct),
        p99_jct_s=jct[min(len(jct) - 1, round(0.99 * (len(jct) - 1)))],
        makespan_s=round(makespan, 3),
        utilization=round(sum(r.ran_s * r.job.gpus for r in ran) / (makespan * len(order)), 4),
        late=round(sum(r.ran_s for r in ran) / sum(r.true_s for r in ran) - 1, 5),
        by_span={app: {tier: _apart(ran, app, tier) for tier in TIERS} for app in APPS},
        moves=sum(w.runs - 1 for _, w in saved),
        twice=sum(w.twice for _, w in saved),
        lost=sum(w.lost for _, w in saved),
        dead_share=round(sum(gpus * w.dead_s for gpus, w in saved) / sum(r.true_s * r.job.gpus for r in ran), 5),
        jct_by_class={c: _mean([r.jct_s for r in rs]) for c, rs in by_class.items()},
        pace_by_class={c: _mean([r.ran_s / r.job.ideal_s for r in rs]) for c, rs in by_class.items()},
        rank_by_class={c: _mean([rank[p] for r in rs for p in r.places]) for c, rs in by_class.items()},
    )


def _apart(ran: Sequence[Ran], app: str, tier: str) -> BySpan:
    those = [r for r in ran if (r.job.app, r.span) == (app, tier)]
    return BySpan(len(those), round(sum(r.talked_s for r in those), 3))


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4) if values else 0.0
