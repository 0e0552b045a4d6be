"""`pal` against the artifact's PAL: same order, same fill rule, 30 s for a move. Prints Markdown.

The bound is the artifact's PAL where all GPUs are alike and moves cost nothing: no placement can take more variability
out. "Of the way": how much of the distance from PAL to that bound `pal` covers; over 100 % where moves and rounds cost
PAL more than variability does. --jitter N repeats with submissions shifted by up to two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.paper.paper_worlds import (
    TRACES,
    alike,
    geomean,
    jittered,
    load,
    markdown,
    medians,
    need_data,
    raw_rows,
    run,
    spread_of,
)
from pal_slurm.model import ScoreTable

FILLS = ("none", "easy")  # pald stops nobody for a job ahead, so it has no `holes`
COST_S = 30.0


def profiles() -> Iterator[tuple[str, ScoreTable]]:
    yield "seed 42", raw_rows(42)
    for seed in range(3):
        yield f"medians {seed}", medians(seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jitter", type=int, default=1, help="replays of each trace")
    parser.add_argument(
        "--round", type=float, help="rounds for both; 0: both act at once; default: 360 for PAL, 0 for us"
    )
    options = parser.parse_args()
    need_data()
    rows = []
    for fill in FILLS:
        for name, table in profiles():
            jct = np.zeros((options.jitter, len(TRACES)))
            span, bound = jct.copy(), jct.copy()
            for j in range(options.jitter):
                for i, w in enumerate(TRACES):
                    work = jittered(load(w), j)
                    theirs = run("artifact/pal", work, table, fill=fill, cost=COST_S, round_s=options.round)
                    ours = run("pal", work, table, fill=fill, cost=COST_S, round_s=options.round)
                    best = run("artifact/pal", work, alike(), fill=fill, round_s=options.round)
                    jct[j, i] = ours.avg_jct_s / theirs.avg_jct_s
                    span[j, i] = ours.makespan_s / theirs.makespan_s
                    bound[j, i] = best.avg_jct_s / theirs.avg_jct_s
            per_trace = [geomean(jct[:, i]) for i in range(len(TRACES))]
            least = geomean(bound.ravel())
            way = (1 - geomean(jct.ravel())) / (1 - least) if least < 1 else float("nan")
            worst, at = max((geomean(span[:, i]), w) for i, w in enumerate(TRACES))
            cells = [fill, name, *(f"{r:.3f}" for r in per_trace), spread_of(jct.ravel())]
            rows.append([*cells, f"{least:.3f}", f"{100 * way:.0f} %", f"{worst:.3f} (w{at})"])
    head = ["fill", "profile", *(f"w{w}" for w in TRACES), "geomean JCT / PAL", "bound", "of the way", "worst makespan"]
    markdown(head, rows)


if __name__ == "__main__":
    main()
