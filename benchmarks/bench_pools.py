"""What it costs to put claims into pools, in CPU milliseconds.

    python -m benchmarks.bench_pools [--rounds 3]

Jobs of 26 kinds with drawn rates; pools that just hold them. One line per figure with what was promised; exit 1 when a
promise is not kept. The first assignment of each is not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from pal_slurm.policy.pools.claims import PoolClaim
from pal_slurm.policy.pools.where import assign

KINDS = 26
# jobs, pools, share that runs already, sizes, ms promised (None: told only)
CASES: tuple[tuple[int, int, float, tuple[int, ...], float | None], ...] = (
    (512, 3, 0.0, (1,), 10.0),
    (512, 3, 0.95, (1,), 10.0),
    (1024, 6, 0.0, (1,), 100.0),
    (10_000, 4, 0.0, (1,), 300.0),
    (512, 3, 0.0, (1, 1, 1, 2, 4, 8), None),
    (100, 3, 0.9, (1, 1, 1, 2, 4, 8), None),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time of an assignment to pools.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args(argv).rounds
    kept = True
    for jobs, pools, runs, sizes, promised in CASES:
        claims = drawn(jobs, pools, runs, sizes)
        gpus = room(claims, pools)
        ms = least_ms(claims, gpus, rounds)
        kept &= promised is None or ms <= promised
        told = "" if promised is None else f"promised {promised:g}"
        print(f"{jobs:6} jobs, {pools} pools, {runs:4.0%} run, up to {max(sizes)} GPUs  {ms:8.2f} ms  {told}")
    return 0 if kept else 1


def drawn(jobs: int, pools: int, runs: float, sizes: tuple[int, ...]) -> list[PoolClaim]:
    draw = np.random.default_rng(0)
    table = draw.uniform(0.1, 1, (KINDS, pools))
    table /= table.max(axis=1, keepdims=True)
    claims = []
    for job in range(jobs):
        rates = tuple(table[draw.integers(0, KINDS)].tolist())
        pool = int(draw.integers(pools)) if draw.random() < runs else -1
        claims.append(PoolClaim(job, int(draw.choice(sizes)), rates, True, pool, -float(draw.uniform(0, 9000))))
    return claims


def room(claims: Sequence[PoolClaim], pools: int) -> list[int]:
    even = -(-sum(claim.gpus for claim in claims) // pools) + max(claim.gpus for claim in claims)
    return [max(even, sum(claim.gpus for claim in claims if claim.pool == pool)) for pool in range(pools)]


def least_ms(claims: Sequence[PoolClaim], gpus: Sequence[int], rounds: int) -> float:
    assign(claims, gpus, 0.0, 60.0)
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        assign(claims, gpus, 0.0, 60.0)
        spent.append(time.process_time() - began)
    return 1000 * min(spent)


if __name__ == "__main__":
    sys.exit(main())
