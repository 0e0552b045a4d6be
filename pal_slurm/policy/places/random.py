"""`random(SEED)`: any GPUs that fit, drawn anew for each job from the seed and the job's id alone."""

from __future__ import annotations

import random

import numpy as np

from pal_slurm.model import App, Job, Placement
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.needs import Area
from pal_slurm.policy.seams import placements
from pal_slurm.policy.tables import NO_RANK


class Random:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def place(self, job: Job, app: App, floor: Floor) -> Placement | None:
        need = floor.needs.of(job)
        if need is None or need in floor.unfit:
            return None
        rng = random.Random(f"{self._seed}:{job.id}")
        tries = [(area, way) for area in need.areas for way in need.ways]
        drawn = rng.sample(tries, len(tries))
        for area, way in sorted(drawn, key=lambda one: one[1][0]) if need.shape.fewest else drawn:
            found = _draw(rng, floor, area, way)
            if found is not None:
                return found
        floor.unfit.add(need)
        return None


def _draw(rng: random.Random, floor: Floor, area: Area, way: tuple[int, int, int, int]) -> Placement | None:
    nodes, gpus, cpus, mem_mb = way
    room = floor.room(area.mask, gpus, cpus, mem_mb)
    names, exact = floor.cluster.node_names, area.slots
    if nodes == 1:
        rows = room.nonzero()[0]
        if not len(rows):
            return None
        row = int(rows[rng.randrange(len(rows))])
        free = floor.free[row].nonzero()[0].tolist()
        slots = tuple(sorted(rng.sample(free, gpus))) if exact else tuple(free[:gpus])
        return Placement((names[row],), (slots,), exact, area.partition)
    table = floor.set_table(None, gpus, room.nonzero()[0], by_slot=area.slots)
    fits = (table.rank != NO_RANK) & room
    choices = np.flatnonzero(fits.sum(axis=1) >= nodes).tolist()
    if not choices:
        return None
    choice = choices[rng.randrange(max(1, len(choices) - 1))]  # the last one names no slots: only when alone
    rows = fits[choice].nonzero()[0]
    taken = sorted(int(r) for r in rng.sample(rows.tolist(), nodes))
    gpus_of = tuple(table.slots(floor, choice, row) for row in taken)
    return Placement(tuple(names[r] for r in taken), gpus_of, choice < len(table.sets), area.partition)


placements.register("random", Random)
