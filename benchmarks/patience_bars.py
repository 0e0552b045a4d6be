"""`pal` against the best rule of each cell of patience.yaml, chosen by hindsight. In: CSVs of sweeps. Out: a table.

python -m benchmarks.patience_bars /tmp/patience.csv /tmp/patience_philly.csv

A cell is a trace, costs and a load. Ratios are taken seed by seed. The best rule is the one against which `pal` looks
worst; `pal` should be at most 2 % behind it, its makespan at most 1 % over that of packed, which waits for nothing; and
over all cells 3 % ahead of each rule in the geometric mean. It ends with 1 where one of these is not so.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pal_slurm.sim.compare import Interval, interval

BEHIND, LONGER, AHEAD = 1.02, 1.01, 0.97
OURS, NO_WAIT = "pal", "packed"

NAMES = {"artistsim": "ArtISt-sim", ":aws/": "T4, 50 Gb/s", ":dgx": "DGX, InfiniBand", "gavel": "Gavel, V100"}
JOBS = {"synthetic": "drawn", "philly.csv": "Philly", "continuous": "Gavel, multi"}

Cell = tuple[str, str, str]


class Figures(NamedTuple):
    jct_s: float
    makespan_s: float


Runs = Mapping[Cell, Mapping[str, Mapping[str, Figures]]]  # by policy and seed


class Row(NamedTuple):
    """One cell."""

    cell: Cell
    hours: float  # packed
    of_each: Mapping[str, Interval]  # average JCT of each policy over packed's
    ours: Mapping[str, Interval]  # of `pal` over each rule's
    makespan: Interval  # of `pal` over packed's

    @property
    def best(self) -> str:
        return max(self.ours, key=lambda rule: self.ours[rule].mean)

    def line(self) -> str:
        each = (f"{found.mean:.3f}" for found in self.of_each.values())
        told = marked(self.ours[self.best], BEHIND), self.best, marked(self.makespan, LONGER)
        return "| " + " | ".join((*self.cell, f"{self.hours:.2f} h", *each, *told)) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="pal against the best rule of each cell.")
    parser.add_argument("csv", type=Path, nargs="+")
    runs = {cell: found for path in parser.parse_args(argv).csv for cell, found in read(path).items()}
    rows = [row_of(cell, of_policy) for cell, of_policy in runs.items()]
    head = ("jobs", "costs", "load", NO_WAIT, *rows[0].of_each, f"{OURS} / best", "best", "makespan")
    print("| " + " | ".join(head) + " |", "|---" * len(head) + "|", *(row.line() for row in rows), sep="\n")
    behind = sum(row.ours[row.best].mean > BEHIND for row in rows)
    longer = sum(row.makespan.mean > LONGER for row in rows)
    over = {rule: geometric(row.ours[rule].mean for row in rows) for rule in rows[0].ours}
    seeds = " to ".join(map(str, sorted({len(of_policy[OURS]) for of_policy in runs.values()})))
    print(f"\n{len(rows)} cells, {seeds} seeds; over 2 % behind the best: {behind}, makespan over 1 % longer: {longer}")
    means = ", ".join(f"{rule} {mean:.3f}" for rule, mean in over.items())
    print(f"JCT of pal over that of each, geometric mean: {means}")
    print(f"makespan of pal over packed's, geometric mean: {geometric(row.makespan.mean for row in rows):.3f}")
    return int(behind > 0 or longer > 0 or max(over.values()) > AHEAD)


def row_of(cell: Cell, of_policy: Mapping[str, Mapping[str, Figures]]) -> Row:
    ours, no_wait = of_policy[OURS], of_policy[NO_WAIT]
    hours = interval([figures.jct_s for figures in no_wait.values()]).mean / 3600
    of_each = {policy: ratio(theirs, no_wait, 0) for policy, theirs in of_policy.items() if policy != NO_WAIT}
    over = {rule: ratio(ours, theirs, 0) for rule, theirs in of_policy.items() if rule != OURS}
    return Row(cell, hours, of_each, over, ratio(ours, no_wait, 1))


def read(path: Path) -> Runs:
    runs: dict[Cell, dict[str, dict[str, Figures]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            trace = Path(row["trace"]).name.partition("_")[0].partition(":")[0]
            cell = JOBS.get(trace, trace), costs(row["comm"]), row["load"]
            figures = Figures(float(row["avg_jct_s"]), float(row["makespan_s"]))
            runs.setdefault(cell, {}).setdefault(row["policy"], {})[row["seed"]] = figures
    return runs


def costs(comm: str) -> str:
    """In short."""
    file, _, names = comm.rpartition(":")
    for word, name in NAMES.items():
        if word in f"{Path(file).name}:{names}":
            return name
    return comm


def ratio(ours: Mapping[str, Figures], theirs: Mapping[str, Figures], which: int) -> Interval:
    return interval([ours[seed][which] / theirs[seed][which] for seed in ours])


def geometric(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


def said(found: Interval) -> str:
    return f"{found.mean:.3f}" + ("" if found.reach is None else f" ±{found.reach:.3f}")


def marked(found: Interval, most: float) -> str:
    return f"**{said(found)}**" if found.mean > most else said(found)


if __name__ == "__main__":
    sys.exit(main())
