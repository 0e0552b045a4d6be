"""Jobs as Gavel's own simulator draws them, for ever. In: the beginning of such a sequence. Out: the same, going on.

Its simulator never stops drawing while jobs that count are there; a file ends. Two streams of Python's random numbers
make a sequence, one of gaps and one of jobs. The gaps' ratios name the seed, so a file that was drawn is known for what
it is, and goes on as it would have. A file that was not goes on from its first job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

from pal_slurm.model import App
from pal_slurm.sim.workload import Work, Workload

SEEDS = 10_000  # that are tried
JOBS, GAPS = 2, 3  # added to the seed for each stream, as published
PROOF = 8  # gaps that must agree before all is compared
NEAR = 1e-4  # of a gap, in a file that tells six digits
SHARED = (
    *(f"ResNet-18 (batch size {n})" for n in (16, 32, 64, 128, 256)),
    *(f"ResNet-50 (batch size {n})" for n in (16, 32, 64, 128)),
    *(f"Transformer (batch size {n})" for n in (16, 32, 64, 128, 256)),
    *(f"LM (batch size {n})" for n in (5, 10, 20, 40, 80)),
)  # these may have several GPUs
EVERY = (*SHARED, *(f"Recommendation (batch size {n})" for n in (512, 1024, 2048, 4096, 8192)), "A3C", "CycleGAN")


def going_on(load: Workload) -> Workload:
    """With jobs beyond its last, and a note that says which."""
    drawn = _drawn(load.works)
    if drawn is None:
        note = "the trace goes on from its first job after its last, until all that count have ended"
        return load.repeated().told(load.skipped, (*load.notes, note))
    note = "after its last job the trace goes on as Gavel's simulator draws it, until all that count have ended"
    return replace(load, beyond=drawn).told(load.skipped, (*load.notes, note))


class Draws:
    """The jobs of one seed, those of the file left out."""

    def __init__(self, seed: int, gap_s: float, works: Sequence[Work]) -> None:
        self._gap_s, self._several = gap_s, any(work.gpus > 1 for work in works)
        self._jobs, self._gaps = Random(seed + JOBS), Random(seed + GAPS)
        self._apps = {(work.app.name, work.gpus): work for work in works}
        self._first = works[0]
        self._block = len(works)
        self._turns: list[tuple[Work, ...]] = []
        self._at, self._number = works[0].submit, works[0].id

    def __call__(self, turn: int) -> tuple[Work, ...]:
        while len(self._turns) < turn:
            self._turns.append(tuple(self.next() for _ in range(self._block)))
        return self._turns[turn - 1]

    def next(self) -> Work:
        """KeyError: an application that the file does not tell of."""
        model, gpus, seconds = self._job()
        like = self._apps[model, gpus]
        steps = seconds / _reference_s(like.app)
        limit = None if like.limit_s is None else like.limit_s * steps / like.steps
        made = replace(like, id=self._number, submit=self._at, steps=steps, limit_s=limit, line=0)
        self._number += 1
        self._at += -math.log(1.0 - self._gaps.random()) * self._gap_s
        return made

    def _job(self) -> tuple[str, int, float]:
        draw = self._jobs
        size = draw.uniform(0, 1)
        gpus = 1 if size < 0.7 else 2 if size <= 0.8 else 4 if size < 0.95 else 8
        long = draw.random() >= 0.8
        seconds = 60 * 10 ** (draw.uniform(3, 4) if long else draw.uniform(1.5, 3))
        gpus = gpus if self._several else 1
        model = draw.choice(EVERY)
        while gpus > 1 and model not in SHARED:
            model = draw.choice(EVERY)
        return model, gpus, seconds


def _reference_s(app: App) -> float:
    """Seconds a step on the GPU by which durations are told."""
    return app.base["v100"] if "v100" in app.base else min(app.base.values())


def _drawn(works: Sequence[Work]) -> Draws | None:
    """The draws that made these jobs, past them; None: they were not made so."""
    if len(works) <= PROOF:
        return None
    gaps = [after.submit - work.submit for work, after in pairwise(works[: PROOF + 1])]
    for seed in range(SEEDS):
        stream = Random(seed + GAPS)
        first = -math.log(1.0 - stream.random())
        gap_s = gaps[0] / first if first else 0.0
        if gap_s and all(_near(-math.log(1.0 - stream.random()) * gap_s, gap) for gap in gaps[1:]):
            span = _span(seed, len(works))
            found = Draws(seed, (works[-1].submit - works[0].submit) / span, works)
            return found if _agrees(found, works) else None
    return None


def _span(seed: int, jobs: int) -> float:
    stream = Random(seed + GAPS)
    return -sum(math.log(1.0 - stream.random()) for _ in range(jobs - 1))


def _agrees(draws: Draws, works: Sequence[Work]) -> bool:
    try:
        return all(_same(draws.next(), work) for work in works)
    except KeyError:
        return False


def _same(made: Work, told: Work) -> bool:
    if (made.app is not told.app) or made.gpus != told.gpus or made.id != told.id:
        return False
    return _near(made.steps, told.steps) and abs(made.submit - told.submit) <= 1.0


def _near(made: float, told: float) -> bool:
    return abs(made - told) <= NEAR * max(abs(told), 1.0)
