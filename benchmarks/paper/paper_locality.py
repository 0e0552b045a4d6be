"""The locality sweep: gain over Packed-Sticky as the cost of spanning nodes grows, seed 42. Prints Markdown."""

from __future__ import annotations

import argparse

from benchmarks.paper.paper_worlds import TRACES, geomean, load, markdown, need_data, raw_rows, run


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    need_data()
    table = raw_rows(42)
    rows = []
    for locality in (1.0, 1.5, 1.7, 2.0, 2.5, 3.0):
        base = {w: run("artifact/packed-sticky", load(w, locality), table, locality=locality) for w in TRACES}
        cells = [f"{locality:g}"]
        for policy in ("artifact/pal", "artifact/pm-first"):
            ran = {w: run(policy, load(w, locality), table, locality=locality) for w in TRACES}
            ratio = geomean(ran[w].avg_jct_s / base[w].avg_jct_s for w in TRACES)
            cells.append(f"{100 * (ratio - 1):+.1f} %")
        rows.append(cells)
    markdown(["cost of spanning nodes", "PAL, avg JCT", "PM-First, avg JCT"], rows)


if __name__ == "__main__":
    main()
