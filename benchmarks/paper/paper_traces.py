"""The published comparison: four policies on the four Sia-Philly traces at hand, seed 42. Prints Markdown."""

from __future__ import annotations

import argparse

from benchmarks.paper.paper_worlds import TRACES, geomean, load, markdown, need_data, raw_rows, run

POLICIES = ("artifact/pal", "artifact/pm-first", "artifact/packed-sticky", "artifact/packed-nonsticky")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    need_data()
    ran = {(policy, w): run(policy, load(w), raw_rows(42)) for policy in POLICIES for w in TRACES}
    base = {w: ran["artifact/packed-sticky", w] for w in TRACES}
    rows = []
    for policy in POLICIES:
        jct = [ran[policy, w].avg_jct_s / base[w].avg_jct_s for w in TRACES]
        span = [ran[policy, w].makespan_s / base[w].makespan_s for w in TRACES]
        cells = [f"{ran[policy, w].avg_jct_s:.2f} / {ran[policy, w].makespan_s:.0f}" for w in TRACES]
        rows.append([policy, *cells, f"{geomean(jct):.3f}", f"{geomean(span):.3f}"])
        rows[-1].append(f"{sum(ran[policy, w].utilization for w in TRACES) / len(TRACES):.3f}")
    markdown(
        ["policy", *(f"w{w}: avg JCT / makespan, s" for w in TRACES), "JCT ratio", "makespan ratio", "utilisation"],
        rows,
    )
    print(f"\n{sum(o.cpu_s for o in ran.values()):.2f} CPU-seconds for the 16 runs")


if __name__ == "__main__":
    main()
