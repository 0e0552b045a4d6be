"""What `palctl gain` says in sentences. In: a month, what placement would have saved. Out: verdict, assumptions."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import Apps, Cluster
from pal_slurm.sim.accounted import LIMIT_FACTOR, may_move
from pal_slurm.sim.gain_report import Month, Saved, Spread
from pal_slurm.sim.workload import Workload


def choice(load: Workload, cluster: Cluster) -> bool:
    """Whether some job may have GPUs of another model than that on which it ran."""
    return len(cluster.models) > 1 and any(not work.model for work in load.works)


def verdict(saved: Sequence[Saved], spreads: Sequence[Spread], month: Month, *, by_models: bool) -> str:
    if not spreads and not by_models:
        return "Nothing can be said: no GPU of these nodes has a score. Profile them, or name them in --scores FILE."
    spread = "no GPU has a score, so this is by the GPU models alone"
    if spreads:
        wide = max(spreads, key=lambda spread: spread.high - spread.low)
        spread = f"the spread is {100 * (wide.high - wide.low):.0f} % (class {wide.cls}, 90 % of the GPUs)"
    blind = " to ".join(_percent([one.packed_gpu_hours.mean for one in saved]))
    shares = " to ".join(_percent([one.saved_gpu_hours.mean for one in saved]))
    if not any(one.sure for one in saved):
        return f"No gain: {spread}, and placement would save {shares} % of the GPU hours."
    used = month.used_s / 3600
    hours = " to ".join(f"{h:,.0f}" for h in sorted(used * max(0.0, one.saved_gpu_hours.mean) for one in saved))
    if len(saved) == 1:
        told = f"Placement would have saved {shares} % of the GPU hours: {hours} of {used:,.0f}"
    else:
        told = (
            f"Placement would have saved {shares} % of the GPU hours, {hours} of {used:,.0f}: how sensitive "
            f"{month.unknown} of {len(month.rans)} jobs are is not known"
        )
    return f"{told}; {spread}. Packing alone, blind to scores, would have saved {blind} %."


def _percent(shares: Sequence[float]) -> list[str]:
    """From the least to the most; the same number once."""
    return list(dict.fromkeys(f"{round(100 * share, 1) + 0.0:.1f}" for share in sorted(shares)))


def assumptions(month: Month, saved: Sequence[Saved], replays: int, shift_s: float) -> tuple[str, ...]:
    rans, apps, scores = month.rans, month.apps, month.scores
    named = len(rans) - month.unknown
    limits = sum(1 for ran in rans if ran.limit_s)
    known = int(scores.known.any(axis=0).sum())
    others = ""
    if len(saved) > 1:
        first, last = (one.unknown_as for one in saved)
        others = (
            f"; the others count as class {first}, and then as class {last}. Describe them in `apps` or `patterns` of "
            "pal.yaml"
        )
        bare = [cls for cls in (first, last) if not scores.known[scores.index(cls)].any()]
        others += f". No GPU has a score of class {bare[0]}" if bare else ""
    elif month.unknown:
        others = f"; the others count as class {apps.default.cls}"
    moved = "Nothing is moved once it runs."
    if month.move_cost_s is not None:
        movable = sum(may_move(ran, month.moves) for ran in rans)
        moved = (
            f"With moves pald may move {movable} jobs, by what accounting tells (pal:move, or a QOS or partition of "
            f"`moves`), within the bounds of `moves`; a moved job does nothing for {month.move_cost_s:g} s."
        )
        if not movable:
            moved = (
                "No job said that it may be moved (pal:move in its comment, or a QOS or partition of `moves`): moves "
                "would bring nothing."
            )
    return (
        f"{named} of {len(rans)} jobs name an application that is known{others}.",
        f"{known} of {scores.known[0].size} GPUs have scores, taken as they are now; the others count as median.",
        "A job's work is its accounted run time without what its nodes' GPUs and their distance are expected to cost.",
        f"A job that spans nodes runs {month.locality:g} times as long, unless its application says otherwise.",
        f"Both ways use first come, first served, and EASY backfill on time limits ({limits} jobs have one; "
        f"the others count {LIMIT_FACTOR:g} times their run time).",
        f"{moved} CPUs, memory, partitions, limits and priorities are left out.",
        f"{replays} replays with submissions shifted by up to {shift_s / 60:g} minutes; "
        "the interval covers that chance and nothing else.",
        *filter(None, [month.note]),
    )


def of_models(load: Workload, cluster: Cluster, apps: Apps) -> tuple[str, ...]:
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
