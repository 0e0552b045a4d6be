"""Which GPUs of one type a round's jobs get, as Gavel gives them. In: jobs with their last GPUs. Out: GPUs.

Large jobs first. Of one size those come first whose last GPUs are all still there; the others take the next ones from a
pointer that never goes back, so a large newcomer may take what a small job held.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from pal_slurm.model import Cluster, Gpus

Who = TypeVar("Who", bound=Hashable)  # a job, or two
Wanted = tuple[Who, int, Gpus]  # how many, and those of the last round


class Workers:
    def __init__(self, cluster: Cluster, model: int) -> None:
        mine = cluster.gpu_exists & (cluster.gpu_model == model)
        self._all: list[int] = np.flatnonzero(mine.ravel()).tolist()
        self.count = len(self._all)

    def given(self, jobs: Sequence[Wanted[Who]]) -> dict[Who, Gpus]:
        given: dict[Who, Gpus] = {}
        taken: set[int] = set()
        next_ = iter(self._all)
        for size in sorted({n for _, n, _ in jobs}, reverse=True):
            same = [(job, last) for job, n, last in jobs if n == size]
            for job, last in same:
                if last and not taken.intersection(last):
                    given[job] = last
                    taken.update(last)
            for job, _ in same:
                if job not in given:
                    found: list[int] = []
                    while len(found) < size:
                        gpu = next(next_)
                        if gpu not in taken:
                            found.append(gpu)
                    taken.update(found)
                    given[job] = tuple(found)
        return given
