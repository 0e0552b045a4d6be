"""How much room there is around each node. In: the floor, as it changes. Out: what share of its rack is free.

A rack with much room is kept for jobs that need several of its nodes. The share is told in steps, so that most changes
change nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pal_slurm.model import FloatArray, IntArray

if TYPE_CHECKING:
    from pal_slurm.policy.floor import Floor

STEPS = 8


def dearer_racks(floor: Floor, by: float) -> FloatArray:
    """(N,) from 1, where a node's rack is full, to `by` more, where it is free."""
    if floor.racks is None or floor.racks.by != by:
        floor.racks = RackRoom(floor, by)
    return floor.racks.factor(floor)


class RackRoom:
    """Of one floor; follows its list of changed rows."""

    def __init__(self, floor: Floor, by: float) -> None:
        self.by = by
        racks, has = np.unique(floor.cluster.rack, return_inverse=True)
        self._rows: list[IntArray] = [np.flatnonzero(has == rack) for rack in range(len(racks))]
        self._rack: list[int] = has.tolist()
        self._gpus = [max(int(floor.cluster.gpus_per_node[rows].sum()), 1) for rows in self._rows]
        self._n_free: list[int] = floor.n_free.tolist()
        self._free = [int(floor.n_free[rows].sum()) for rows in self._rows]
        self._seen = len(floor.changed)
        self._factor: FloatArray = np.array([self._step(rack) for rack in range(len(racks))])[has]

    def _step(self, rack: int) -> float:
        return 1.0 + self.by * (STEPS * self._free[rack] // self._gpus[rack] / STEPS)

    def factor(self, floor: Floor) -> FloatArray:
        changed, self._seen = floor.changed[self._seen :], len(floor.changed)
        for row in changed:
            rack, free = self._rack[row], int(floor.n_free[row])
            before = self._step(rack)
            self._free[rack] += free - self._n_free[row]
            self._n_free[row] = free
            if (step := self._step(rack)) != before:
                self._factor[self._rows[rack]] = step
        return self._factor
