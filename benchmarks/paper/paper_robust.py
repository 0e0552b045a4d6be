"""`pal` with scores that are noisy, a night old and have stalls in them, against packed at once. Prints Markdown.

True speeds: whole measured nodes. Each of five nights every GPU is measured once, with the scatter that runs of one GPU
show (3.6 %, 1.4 %, 1.4 %, 0.1 % per class), nodes drifting 1 % a night, and one node run in 70 stalled by 1.5 to 3.5
times, as 20 of 1404 measured runs were. The newest night is last night: what is true today differs by one more drift.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.paper.paper_worlds import CLASSES, TRACES, jittered, load, markdown, medians, need_data, run, spread_of
from pal_slurm.model import ScoreTable
from pal_slurm.scores import RunTime, believable, binned, score_runs

SCATTER = (0.036, 0.014, 0.014, 0.001)
DRIFT, STALLED, NIGHTS, COST_S = 0.01, 1 / 70, 5, 30.0


def nights(truth: ScoreTable, seed: int) -> np.ndarray:
    """(night, class, node, slot) run times; night 0 is the last."""
    rng = np.random.default_rng([seed, 17])
    out = []
    now = truth.score
    for _ in range(NIGHTS):
        now = now * np.exp(rng.normal(0, DRIFT, (*now.shape[:2], 1)))
        runs = now * np.exp(rng.normal(0, 1, now.shape) * np.array(SCATTER)[:, None, None])
        stalled = rng.random((*now.shape[:2], 1)) < STALLED
        out.append(runs * np.where(stalled, rng.uniform(1.5, 3.5, stalled.shape), 1.0))
    return np.stack(out)


def judged(runs: np.ndarray) -> ScoreTable:
    """What the scores room makes of the runs: medians without stalls, pulled to 1 as far as they are noise."""
    _, classes, nodes, width = runs.shape
    cube = np.ones(runs.shape[1:])
    for c in range(classes):
        rows = (
            RunTime(f"{n}:{s}", str(n), float(run[c, n, s])) for run in runs for n in range(nodes) for s in range(width)
        )
        for gpu, score in believable(score_runs(rows)).items():
            n, s = map(int, gpu.split(":"))
            cube[c, n, s] = score.score
    return binned(CLASSES, cube)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=15)
    options = parser.parse_args()
    need_data()
    rows = []
    for fill in ("none", "easy"):
        ratios: dict[str, list[list[float]]] = {}
        spans: dict[str, list[list[float]]] = {}
        for seed in range(options.seeds):
            truth = medians(seed)
            runs = nights(truth, seed)
            known = {
                "true scores": truth,
                "five nights, judged": judged(runs),
                "last night, raw": binned(CLASSES, runs[0]),
            }
            works = [jittered(load(w), seed) for w in TRACES]
            packed = [run("artifact/packed-sticky", w, truth, fill=fill, cost=COST_S, round_s=0.0) for w in works]
            for name, table in known.items():
                ours = [run("pal", w, truth, known=table, fill=fill, cost=COST_S) for w in works]
                pairs = list(zip(ours, packed, strict=True))
                ratios.setdefault(name, []).append([mine.avg_jct_s / base.avg_jct_s for mine, base in pairs])
                spans.setdefault(name, []).append([mine.makespan_s / base.makespan_s for mine, base in pairs])
        for name, each in ratios.items():
            values = np.array(each)
            per_trace = [f"{np.exp(np.log(values[:, i]).mean()):.3f}" for i in range(len(TRACES))]
            makespans = " ".join(f"{r:.3f}" for r in np.exp(np.log(np.array(spans[name])).mean(axis=0)))
            rows.append([fill, name, *per_trace, spread_of(values.ravel()), makespans])
    markdown(["fill", "what is known", *(f"w{w}" for w in TRACES), "avg JCT / packed", "makespans / packed"], rows)


if __name__ == "__main__":
    main()
