"""What an entitlement costs to work out, in CPU milliseconds.

    python benchmarks/bench_entitlements.py [--rounds 3]

Jobs are drawn from Gavel's own 26 job types (`../shared/data/gavel`), one GPU each; three pools of n/4 GPUs. One
line per figure with what was promised; exit 1 when a promise is not kept. The first solve of each is not counted.
Where cvxpy and ECOS are installed (`pip install cvxpy ecos`) what is promised is solved as Gavel's code does it too:
its time, how many times as long that is, and exit 1 when the two objectives are not the same.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.gavels_solvers import GavelsSolvers, cvxpy_with_ecos
from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.division import Division, Shares, Together
from pal_slurm.policy.entitlement.finish_time import finish_time
from pal_slurm.policy.entitlement.makespan import makespan
from pal_slurm.policy.entitlement.max_min import max_min
from pal_slurm.policy.entitlement.water_filling import Entities, hierarchical, water_filling

RATES = Path(__file__).resolve().parents[2] / "shared" / "data" / "gavel" / "isolated_throughputs.csv"
ENTITIES = Entities(np.array([1.0, 2.0, 3.0, 1.0, 2.0]))
SAME = 1e-4  # of the objective
# name, solver, jobs, ms promised (None: told only)
CASES: tuple[tuple[str, Callable[[Division], Shares], int, float | None], ...] = (
    ("max-min", max_min, 128, None),
    ("max-min", max_min, 1024, None),
    ("max-min", max_min, 4096, 2.0),
    ("water-filling", water_filling, 2048, None),
    ("hierarchical, 5 entities", lambda asked: hierarchical(asked, ENTITIES), 512, None),
    ("hierarchical, 5 entities", lambda asked: hierarchical(asked, ENTITIES), 2048, 1000.0),
    ("makespan", makespan, 1024, None),
    ("finish-time, all new", finish_time, 1024, 100.0),
    ("max-min, any two may share", max_min, 256, 50.0),
    ("max-min, any two may share", max_min, 2048, None),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time of entitlements.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args(argv).rounds
    table = types()
    kept, cvxpy = True, cvxpy_with_ecos()
    for name, solve, jobs, promised in CASES:
        asked = drawn(table, jobs, shares=name.endswith("share"))
        ms = least_ms(solve, asked, rounds)
        told = "" if promised is None else f"promised {promised:g}"
        kept &= promised is None or ms <= promised
        theirs = None if cvxpy is None or promised is None else GavelsSolvers(cvxpy).named(name)
        if theirs is not None:
            their_ms, same = beside_theirs(theirs, asked, solve(asked).value)
            told += f"; by ECOS {their_ms:.0f} ms, {their_ms / ms:.0f} times as long"
            told += "" if same else ": ANOTHER VALUE"
            kept &= same
        print(f"{name:28} {jobs:5} jobs  {ms:8.2f} ms  {told}", flush=True)
    if cvxpy is None:
        print("cvxpy and ECOS are not here, so nothing is told of Gavel's own way to solve these")
    return 0 if kept else 1


def beside_theirs(theirs: Callable[[Division], float], asked: Division, ours: float) -> tuple[float, bool]:
    """Their CPU milliseconds for one solve, and whether the objectives are the same."""
    began = time.process_time()
    value = theirs(asked)
    return 1000 * (time.process_time() - began), abs(value - ours) <= SAME * abs(ours)


def types() -> FloatArray:
    """(26, 3) steps/s of those on one GPU."""
    with RATES.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["scale_factor"] == "1"]
    return np.array([[float(row[model] or 0) for model in ("v100", "p100", "k80")] for row in rows])


def beside() -> FloatArray:
    """(26, 26, 3) steps/s of each beside each other on one GPU; 0: there is no memory for both."""
    with RATES.open(encoding="utf-8") as file:
        names = [f"('{row['model']}', 1)" for row in csv.DictReader(file) if row["scale_factor"] == "1"]
    told = json.loads((RATES.parent / "simulation_throughputs.json").read_text())
    of = [[[told[model][a][b][0] for model in ("v100", "p100", "k80")] for b in names] for a in names]
    return np.array(of)


def drawn(table: FloatArray, jobs: int, *, shares: bool = False) -> Division:
    draw = np.random.default_rng(1)
    kind = draw.integers(0, len(table), jobs)
    return Division(
        table[kind],
        np.full(3, jobs / 4),
        steps=draw.uniform(1e3, 1e6, jobs),
        entity=draw.integers(0, len(ENTITIES.weights), jobs),
        together=Together(kind, beside()) if shares else None,
    )


def least_ms(solve: Callable[[Division], Shares], asked: Division, rounds: int) -> float:
    solve(asked)
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        solve(asked)
        spent.append(time.process_time() - began)
    return 1000 * min(spent)


if __name__ == "__main__":
    sys.exit(main())
