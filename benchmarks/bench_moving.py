"""CPU time of one look for moves: 2,000 running movable jobs among 10,000, on 2,500 nodes of four GPUs.

.venv/bin/python benchmarks/bench_moving.py
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from pal_slurm.model import (
    App,
    Apps,
    Consent,
    Given,
    Hint,
    Job,
    JobState,
    Knowledge,
    Lease,
    Request,
    ScoreTable,
    Shape,
    Snapshot,
    homogeneous,
)
from pal_slurm.policy import compose
from pal_slurm.policy.moving.value import ByValue, ForRoom, MayMove

NOW = 1_800_000_000
NODES, MOVABLE = 2_600, 2_000
APPS = Apps({name: App(name, cls) for name, cls in zip("abcdef", "AABBCC", strict=True)}, App("?", "A"))


def job(number: int) -> Job:
    asks = Request(per_node="gres/gpu:1")
    return Job(
        number, JobState.RUNNING, NOW - 7200, f"u{number % 50}", partitions=("gpu",), start=NOW - 3600,
        end=NOW + 72_000, shape=Shape(1, 1, 1), gpu_job=True, request=asks, nodes=(f"n{number // 4 + 1}",),
        gpus=((number % 4,),), hint=Hint(app="abcdef"[number % 6]), lease=Lease(0, asks), requeue=True,
        consent=Consent(Given.ASKED),
    )  # fmt: skip


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    rng = np.random.default_rng(0)
    jobs = tuple(job(number) for number in range(10_000))
    cluster = homogeneous(NODES, 4)
    free = np.array(cluster.gpu_free)
    free.reshape(-1)[:10_000] = False
    cluster = replace(cluster, gpu_free=free)
    shape = (3, NODES, 4)
    bins = rng.integers(0, 8, shape).astype(np.int16)
    scores = ScoreTable(("A", "B", "C"), 1.0 + 0.05 * bins, bins, np.ones(shape, dtype=np.bool_))
    known = Knowledge(scores, APPS)
    movable = [MayMove(jobs[number], 60.0) for number in rng.choice(10_000, MOVABLE, replace=False)]
    for waits in ((), (replace(job(10_001), state=JobState.PENDING, shape=Shape(1, 1, 4)),)):
        taken = []
        for _ in range(5):
            view = Snapshot(float(NOW), replace(cluster), waits, jobs)
            begun = time.process_time()
            found = ByValue(view, known, compose("pal").placement, 2.0, 8, tuple(map(ForRoom, waits))).moves(movable)
            taken.append(time.process_time() - begun)
        said = "a job waits" if waits else "nobody waits"
        print(f"{said}: {len(found)} moves, {1000 * min(taken):.0f} ms of CPU")


if __name__ == "__main__":
    main()
