"""One round of the artifact: where those that may run go. In: jobs in scheduler order that fit together. Out: GPUs.

Who may run is the longest head of the order that fits into the cluster. In the artifact that follows from placing
until the first job that does not fit: its placers take any free GPUs, so they fail for want of numbers only, and its
eviction of running jobs from the tail of the order ends with the same set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Protocol

from pal_slurm.errors import ConfigError
from pal_slurm.sim.artifact.board import Ask, Board, Gpus
from pal_slurm.sim.artifact.placers import PLACERS, Placer


class Rounds(Protocol):
    """A policy in rounds. It keeps its board between rounds; `ended` tells it who has come to an end."""

    def ended(self, job: int) -> None: ...
    def round(self, asks: Sequence[Ask], leaving: Sequence[int]) -> dict[int, Gpus]:
        """The GPUs of every job that starts or moves. `leaving`: running jobs that may not go on, in order."""


class Anew:
    """Frees everything and places all anew (PAL, PM-First, Gandiva's packing).

    Placing is a function of the sequence of jobs, so what has the same jobs before it as last time stays.
    """

    def __init__(self, board: Board, placer: Placer, sort_by_class: bool) -> None:
        self._board = board
        self._placer = placer
        self._sort = sort_by_class
        self._last: dict[int, tuple[Ask, Gpus]] = {}
        self._held: dict[int, Gpus] = {}

    def ended(self, job: int) -> None:
        self._held.pop(job, None)

    def round(self, asks: Sequence[Ask], leaving: Sequence[int]) -> dict[int, Gpus]:
        for job in leaving:
            del self._held[job]
        if self._sort:
            asks = sorted(asks, key=lambda ask: ask.cls)
        last = list(self._last.values())
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], zip(asks, last, strict=False)))
        for ask, gpus in last[same:]:
            self._board.give(gpus)
            del self._last[ask.job]
        out: dict[int, Gpus] = {}
        for ask in asks[same:]:
            placed = self._placer(self._board, ask)
            if placed is None:
                break
            self._board.take(placed)
            self._last[ask.job] = (ask, placed)
            if self._held.get(ask.job) != placed:
                self._held[ask.job] = out[ask.job] = placed
        return out


class Packed:
    """Running jobs keep their GPUs; those that may not go on are stopped from the tail as room is needed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._held: dict[int, Gpus] = {}

    def ended(self, job: int) -> None:
        self._board.give(self._held.pop(job))

    def round(self, asks: Sequence[Ask], leaving: Sequence[int]) -> dict[int, Gpus]:
        out: dict[int, Gpus] = {}
        victims = list(leaving)
        for ask in asks:
            if ask.job in self._held:
                continue
            gpus = self._board.packed(ask.gpus)
            while gpus is None and victims:
                self.ended(victims.pop())
                gpus = self._board.packed(ask.gpus)
            if gpus is None:
                break
            self._board.take(gpus)
            self._held[ask.job] = out[ask.job] = gpus
        for job in victims:  # the job that ended the head of the order has stopped them all
            self.ended(job)
        return out


_MAKERS: Mapping[str, Callable[[Board], Rounds]] = {
    "artifact/pal": lambda board: Anew(board, PLACERS["pal"], sort_by_class=True),
    "artifact/pm-first": lambda board: Anew(board, PLACERS["pm-first"], sort_by_class=True),
    "artifact/packed-nonsticky": lambda board: Anew(board, PLACERS["packed"], sort_by_class=False),
    "artifact/packed-sticky": Packed,
}
ROUND_NAMES = tuple(_MAKERS)


def rounds_named(name: str, board: Board) -> Rounds:
    """The policy of that name on an empty board."""
    if name not in _MAKERS:
        raise ConfigError(f"There is no policy {name!r}; choose one of {', '.join(_MAKERS)}.")
    return _MAKERS[name](board)
