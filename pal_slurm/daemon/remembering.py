"""What the policy remembers between plans, kept across restarts. In: its memory. Out: the same, or none.

One row, written by the leader only and now and then: losing it is neutral, and so is one that is a few seconds old.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pal_slurm.errors import StoreError, StoreGone
from pal_slurm.policy.memory import NO_MEMORY, Memory, memory_of
from pal_slurm.store import MemoryRepo

EVERY_S = 5.0
log = logging.getLogger("pald")


@dataclass
class Remembering:
    repo: MemoryRepo
    _memory: Memory = NO_MEMORY
    _fence: int | None = None  # of the leadership that it is of: another may have planned since
    _kept: Memory = NO_MEMORY
    _kept_at: float = 0.0

    def of(self, fence: int, now: float) -> Memory:
        if fence != self._fence:
            self._memory, self._fence = self._stored().as_of(now), fence
        return self._memory

    def keep(self, memory: Memory, fence: int, now: float) -> None:
        self._memory, self._fence = memory, fence
        if memory != self._kept and not self._kept_at <= now < self._kept_at + EVERY_S:
            self._kept_at = now
            try:
                self.repo.keep(memory.plain(), fence, now)
                self._kept = memory
            except StoreGone:
                raise
            except StoreError as error:  # nobody is placed worse without it; without the ledger nothing is written
                log.warning("what the policy remembers can't be kept: %s", error)

    def _stored(self) -> Memory:
        plain = self.repo.stored()
        memory = NO_MEMORY if plain is None else memory_of(plain)
        if plain is not None and memory is NO_MEMORY:
            log.warning("what the policy remembered can't be read by this pald, and is forgotten: nobody waits longer")
        return memory
