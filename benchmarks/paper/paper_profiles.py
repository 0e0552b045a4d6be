"""How the published gain hangs on the profile: PAL and PM-First against Packed-Sticky. Prints Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.paper.paper_worlds import (
    TRACES,
    alike,
    geomean,
    load,
    markdown,
    medians,
    need_data,
    raw_rows,
    run,
    without_worst,
)
from pal_slurm.model import ScoreTable


def profiles() -> Iterator[tuple[str, ScoreTable]]:
    yield "raw rows, seed 42 (as published)", raw_rows(42)
    for seed in range(1, 8):
        yield f"raw rows, seed {seed}", raw_rows(seed)
    yield "raw rows, seed 42, without the 2.83x GPU", without_worst(raw_rows(42))
    for seed in range(3):
        yield f"whole nodes, medians, seed {seed}", medians(seed)
    yield "no variability", alike()


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    need_data()
    rows = []
    for name, table in profiles():
        base = {w: run("artifact/packed-sticky", load(w), table) for w in TRACES}
        cells = [name, f"{table.score[0].max():.2f}"]
        for policy in ("artifact/pal", "artifact/pm-first"):
            ran = {w: run(policy, load(w), table) for w in TRACES}
            cells.append(f"{geomean(ran[w].avg_jct_s / base[w].avg_jct_s for w in TRACES):.3f}")
            cells.append(f"{geomean(ran[w].makespan_s / base[w].makespan_s for w in TRACES):.3f}")
        rows.append(cells)
    markdown(["profile", "worst A score", "PAL JCT", "PAL makespan", "PM-First JCT", "PM-First makespan"], rows)


if __name__ == "__main__":
    main()
