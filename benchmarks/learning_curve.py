"""How fast scores find the truth: from nights, and from jobs alone. In: seeds. Out: a table; with --plot a picture.

    python benchmarks/learning_curve.py [--gpus 64] [--jobs 1600] [--plot FILE]

Three parts, all with known truth or measured data:
1. jobs: GPUs with hidden speeds, jobs of 1 to 8 GPUs at the pace of their slowest; nothing but step times is known.
   Of four users, of one, and of one whose word is taken for everything, as no pald does.
2. changes: one GPU becomes 1.5 times as slow, alone in its job or in a gang, and recovers.
3. nights: draws (with replacement) from each V100's own measured runs, night by night, against the medians of all data.
"""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.scores.apart import outlying
from pal_slurm.scores.combine import combine
from pal_slurm.scores.learning import JUMP, PRIOR, Beliefs, hear
from pal_slurm.scores.nights import Runs, by_night
from pal_slurm.scores.witness import Anchor, Vote, allowed

LONGHORN = Path(__file__).resolve().parents[2] / "shared" / "data" / "pal" / "longhorn"
SIZES, SHARES = (1, 2, 4, 8), (0.4, 0.25, 0.25, 0.1)
NOISE = 0.03  # between jobs of one application


def spearman(a: FloatArray, b: FloatArray) -> float:
    first, second = (np.argsort(np.argsort(values)).astype(np.float64) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


@dataclass(frozen=True)
class Point:
    jobs: int
    per_gpu: float
    order: float
    error: float
    held: float
    outliers: str


def jobs_curve(gpus: int, jobs: int, seed: int, users: int) -> list[Point]:
    """`users`: whose votes say how far a score may go; 0: any distance."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 0.05, gpus)
    slow = rng.choice(gpus, 2, replace=False)
    truth[slow] = log(1.4), log(1.8)
    mean, var, seen, points = np.zeros(gpus), np.full(gpus, PRIOR**2), 0, []
    said, doubt = np.zeros((users, gpus)), np.full((users, gpus), PRIOR**2)
    heard = np.full((users, gpus), -1.0)
    marks = {round(jobs / 2**k) for k in range(7)}
    for job in range(1, jobs + 1):
        mine = rng.choice(gpus, int(rng.choice(SIZES, p=SHARES)), replace=False)
        ratio = float(truth[mine].max() + rng.normal(0, NOISE))
        after = hear(Beliefs(mean[mine], var[mine]), ratio, NOISE)
        mean[mine], var[mine] = after.mean, after.var
        if users:
            user = job % users
            vote = hear(Beliefs(said[user, mine], doubt[user, mine]), ratio, NOISE)
            said[user, mine], doubt[user, mine], heard[user, mine] = vote.mean, vote.var, job
            for gpu in mine.tolist():
                ran = np.flatnonzero(heard[:, gpu] >= 0)
                votes = [Vote(float(said[u, gpu]), float(doubt[u, gpu]), float(heard[u, gpu])) for u in ran]
                within = float(np.clip(mean[gpu], *allowed(Anchor(), votes)))
                var[gpu] += min(abs(mean[gpu] - within), JUMP) ** 2
                mean[gpu] = within
        seen += mine.size
        if job in marks:
            error = np.sqrt(var)
            named = outlying(np.exp(mean), np.exp(mean - 1.96 * error))
            held = np.mean(np.abs(mean - truth) < 1.96 * error)
            found = f"{int(named[slow].sum())} of 2, {int(named.sum() - named[slow].sum())} false"
            rmse = float(np.sqrt(np.mean((mean - truth) ** 2)))
            points.append(Point(job, seen / gpus, spearman(mean, truth), rmse, float(held), found))
    return points


def changes(seed: int) -> list[tuple[str, list[float]]]:
    """Scores after each ten minutes; the change comes after the second, the recovery after the sixth."""
    rng = np.random.default_rng(seed)
    told = []
    for name, size in (("alone", 1), ("in a gang of 4", 4)):
        belief = usual = Beliefs(np.zeros(size), np.full(size, 0.02**2))
        path = []
        for stretch in range(10):
            slow = 1.5 if 2 <= stretch < 6 else 1.0
            belief = hear(belief, log(slow) + float(rng.normal(0, 0.01)), 0.02, usual)
            path.append(exp(float(belief.mean.max())))
        told.append((name, path))
    return told


def measured(app: str) -> tuple[list[FloatArray], list[int]]:
    """Run times of each GPU, and the node of each."""
    with (LONGHORN / f"{app}-longhorn-agg.csv").open(newline="") as file:
        rows = [(r["uuid"], r["cabinet"] + r["node"], float(r["perf"])) for r in csv.DictReader(file)]
    nodes = sorted({node for _, node, _ in rows})
    own: dict[str, list[float]] = {}
    of: dict[str, int] = {}
    for uuid, node, seconds in rows:
        own.setdefault(uuid, []).append(seconds)
        of[uuid] = nodes.index(node)
    return [np.array(seconds) for seconds in own.values()], [of[uuid] for uuid in own]


def nights_curve(app: str, per_night: int, nights: int, seed: int) -> tuple[float, float, int]:
    own, node = measured(app)
    rng = np.random.default_rng(seed)
    seconds = np.array([rng.choice(mine, (nights, per_night)) for mine in own])
    gpu, night, run = (index.ravel() for index in np.indices(seconds.shape))
    runs = Runs(gpu, np.zeros_like(gpu), np.array(node)[gpu], night, seconds.ravel(), night * 86_400.0 + run * 600.0)
    made = by_night(runs)
    scores = combine(made, np.zeros(len(made), dtype=np.intp))
    medians = np.array([np.median(mine) for mine in own])
    false = int(outlying(scores.score, scores.low).sum())
    return spearman(scores.log, medians), float(scores.score.max()), false


def plot(path: Path, points: list[Point]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot([p.per_gpu for p in points], [p.order for p in points], marker="o", label="rank correlation")
    axes.plot([p.per_gpu for p in points], [p.error for p in points], marker="s", label="error (log)")
    axes.set_xscale("log")
    axes.set_xlabel("jobs per GPU")
    axes.set_ylim(0, 1)
    axes.legend()
    axes.set_title("Scores learned from jobs alone")
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    print(f"1. {options.gpus} GPUs, jobs of 1 to 8, {NOISE:.0%} noise between jobs; outliers of 1.4 and 1.8")
    points: list[Point] = []
    for users, whose in ((4, "four users"), (1, "one user"), (0, "one user, believed in everything")):
        curve = jobs_curve(options.gpus, options.jobs, options.seed, users)
        points = points or curve
        print(f"   {whose}\n   jobs  per GPU  rank correlation  error   truth within the interval  outliers named")
        for p in curve:
            print(f"  {p.jobs:5}  {p.per_gpu:7.1f}  {p.order:16.3f}  {p.error:.4f}  {p.held:25.0%}  {p.outliers}")
    print("\n2. one GPU becomes 1.5 times as slow after 20 minutes and recovers after 60; score each ten minutes")
    for name, path in changes(options.seed):
        print(f"   {name:15}" + "  ".join(f"{score:.2f}" for score in path))
    if not LONGHORN.is_dir():
        print("\n3. left out: the public data are not at ../shared/data")
        return 0
    print(
        "\n3. measured V100 runs, five nights of draws against the medians of all data; five seeds, the worst of each"
    )
    print("   app     runs per night  least rank correlation  greatest score  false outliers")
    for app in ("resnet", "bert", "pagerank"):
        for per_night in (3, 5, 10, 16, 20):
            found = [nights_curve(app, per_night, 5, seed) for seed in range(5)]
            order, most = min(f[0] for f in found), max(f[1] for f in found)
            print(f"   {app:9} {per_night:12}  {order:22.3f}  {most:14.3f}  {sum(f[2] for f in found):14}")
    if options.plot:
        plot(options.plot, points)
    return 0


if __name__ == "__main__":
    sys.exit(main())
