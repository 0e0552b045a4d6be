"""The index of the waiting line against a plain scan of the queue."""

from __future__ import annotations

import random

import pytest

from pal_slurm.model import App
from pal_slurm.sim.engine import Run
from pal_slurm.sim.line import DEPTH, Key, Line, Place
from pal_slurm.sim.workload import Work

APP = App("a", "A")


def place(number: int, gpus: int, limit_s: float) -> Place:
    work = Work(number, float(number), gpus, 1.0, APP)
    return Place((float(number),), limit_s, Run(work, work.as_job(), number, 1.0))


def plain(queue: list[Place], head: Key, free: int, extra: int, window_s: float, no: set[int], but: set[Key]) -> Key:
    """The first that may start, by looking at everybody; () for nobody."""
    for size in {p.run.work.gpus for p in queue}:
        for late in [p for p in queue if p.run.work.gpus == size][DEPTH:]:
            queue = [p for p in queue if p is not late]
    for p in queue:
        size = p.run.work.gpus
        fits = size <= free and size not in no and (size <= extra or p.limit_s <= window_s)
        if fits and p.key > head and p.key not in but:
            return p.key
    return ()


@pytest.mark.parametrize("seed", range(60))
def test_those_who_fill_a_hole_are_those_that_a_scan_of_the_whole_queue_finds(seed: int) -> None:
    rng = random.Random(seed)
    queue = [
        place(i, rng.choice((1, 1, 1, 2, 4)), rng.choice((10.0, 100.0, 1000.0))) for i in range(rng.randint(1, 300))
    ]
    line = Line()
    for p in queue:
        line.add(p.key, p.limit_s, p.run)
    head, window_s = queue[rng.randrange(min(3, len(queue)))], rng.choice((5.0, 50.0, 500.0))
    free, extra, barred, declined = rng.randint(1, 30), rng.randint(0, 10), set[int](), set[Key]()
    fillers = line.fillers(head.key, window_s, declined)
    while True:
        found = fillers.next(free, extra, barred)
        assert (() if found is None else found.key) == plain(queue, head.key, free, extra, window_s, barred, declined)
        if found is None:
            return
        size = found.run.work.gpus
        what = rng.random()
        if what < 0.3:
            declined.add(found.key)
        elif what < 0.4:
            barred.add(size)
        else:
            line.remove(found)
            queue.remove(found)
            free -= size
            extra -= size if found.limit_s > window_s else 0
