"""Which GPUs are free. In: what is taken and given back, node by node. Out: flags for many nodes, a number for one.

The slots of one node are the bits of one number: they are compared, taken and given back in one step. Few numbers come
again and again, so what is made of them is kept.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from pal_slurm.model import BoolArray, IntArray

KEPT = 1 << 14


@lru_cache(maxsize=KEPT)
def mask_of(slots: tuple[int, ...]) -> int:
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


@lru_cache(maxsize=KEPT)
def slots_of(mask: int) -> tuple[int, ...]:
    """Ascending."""
    return tuple([slot for slot in range(mask.bit_length()) if mask >> slot & 1])


@lru_cache(maxsize=KEPT)
def flags_of(mask: int, width: int) -> BoolArray:
    """(S,) which slots these are."""
    flags = np.zeros(width, dtype=np.bool_)
    flags[list(slots_of(mask))] = True
    flags.setflags(write=False)
    return flags


def masks_of(flags: BoolArray) -> list[int]:
    """(N, S) by row."""
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(flags, axis=1, bitorder="little")]


class FreeGpus:
    usable: BoolArray  # (N, S) could be free at all

    def set_free(self, free: BoolArray) -> None:
        """These, and no others."""
        self.free: BoolArray = free  # (N, S)
        self.n_free: IntArray = free.sum(axis=1, dtype=np.int16)
        self.changed: list[int] = []  # rows, in the order in which they changed
        self._masks: list[int] | None = None  # the same by row, a bit for each slot; None: to be made
        self._total: int | None = None  # None: to be counted
        self._most = (-1, 0)  # after how many changes, the most GPUs free on a node

    @property
    def masks(self) -> list[int]:
        if self._masks is None:
            self._masks = masks_of(self.free)
        return self._masks

    @cached_property
    def _usable_masks(self) -> list[int]:
        return masks_of(self.usable)

    def most(self) -> int:
        """GPUs that are free on the node with most of them."""
        if self._most[0] != len(self.changed):
            self._most = (len(self.changed), int(self.n_free[self.n_free.argmax()]) if len(self.n_free) else 0)
        return self._most[1]

    def total(self) -> int:
        """GPUs that are free."""
        if self._total is None:
            self._total = int(self.n_free.sum())
        return self._total

    def _put(self, row: int, mask: int) -> None:
        """These of one node are free now."""
        masks, free = self.masks, mask.bit_count()
        if self._total is not None:
            self._total += free - masks[row].bit_count()
        masks[row] = mask
        self.free[row] = flags_of(mask, self.free.shape[1])
        self.n_free[row] = free
