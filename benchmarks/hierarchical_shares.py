"""Three accounts of the weights 1, 2 and 3 on nine GPUs: what each has as their jobs come, one in four steps.

    python benchmarks/hierarchical_shares.py [--seed 0]

Three V100, three P100, three K80; 18 jobs of one GPU drawn from Gavel's job types: six of the first account, then six
of the second, then six of the third. One line for each job that comes: every account's part of all that is done (rates
over those with an equal share of everything), that sum, and the same where the GPUs are split among the three for ever.
The last line: what the split loses, over all steps and at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.bench_entitlements import types
from pal_slurm.model import FloatArray, IntArray
from pal_slurm.policy.entitlement.division import Division
from pal_slurm.policy.entitlement.water_filling import Entities, hierarchical, water_filling

WEIGHTS = np.array([1.0, 2.0, 3.0])
GPUS = np.full(3, 3.0)
JOBS = 18


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Shares of accounts.")
    parser.add_argument("--seed", type=int, default=0)
    rates = np.random.default_rng(parser.parse_args(argv).seed).choice(types(), JOBS)
    owner = np.repeat(np.arange(3), JOBS // 3)
    whole, split = [], []
    print("jobs    parts of the accounts   done in all   with the GPUs split")
    for jobs in range(1, JOBS + 1):
        of = owner[:jobs]
        done = together(rates[:jobs], of)
        parts = np.array([done[of == account].sum() for account in range(3)])
        whole.append(float(done.sum()))
        split.append(sum(alone(rates[:jobs][of == account], account) for account in set(of.tolist())))
        told = " ".join(f"{part:7.1%}" for part in parts / parts.sum())
        print(f"{jobs:4}   {told}   {whole[-1]:11.2f}   {split[-1]:19.2f}")
    print(f"split, {1 - sum(split) / sum(whole):.1%} less is done; with all 18 jobs {1 - split[-1] / whole[-1]:.1%}")
    return 0


def together(rates: FloatArray, owner: IntArray) -> FloatArray:
    """(jobs,) the rate of each, over its rate with an equal share of everything."""
    division = Division(rates, GPUS, entity=owner)
    return np.asarray(hierarchical(division, Entities(WEIGHTS)).rate / division.equal)


def alone(rates: FloatArray, account: int) -> float:
    """The same of one account on its own part of every pool: six such parts, with six times its jobs, so that they are
    whole GPUs."""
    owed = water_filling(Division(np.repeat(rates, 6, axis=0), GPUS * WEIGHTS[account]))
    return float((owed.rate[::6] / (rates @ GPUS / GPUS.sum())).sum())


if __name__ == "__main__":
    sys.exit(main())
