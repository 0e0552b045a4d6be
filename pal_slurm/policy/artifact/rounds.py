"""One round of the artifact: who runs, and where. In: all jobs in scheduler order. Out: GPU sets by job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from pal_slurm.errors import ConfigError
from pal_slurm.policy.artifact.board import Ask, Board, Gpus
from pal_slurm.policy.artifact.placers import PLACERS, Placer


@dataclass(slots=True)
class Round:
    """What changes: jobs to stop, and the GPUs of jobs that start or move."""

    stopped: list[int] = field(default_factory=list)
    placed: dict[int, Gpus] = field(default_factory=dict)


class Rounds(Protocol):
    """A policy in rounds. It keeps its board between rounds; `ended` tells it who is no longer there."""

    def ended(self, job: int) -> None: ...
    def round(self, order: Iterable[Ask]) -> Round: ...


class Anew:
    """Places the longest head of the order that fits into the cluster anew each round (PAL, PM-First, Gandiva).

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

    def round(self, order: Iterable[Ask]) -> Round:
        asks = self._head(order)
        last = list(self._last.values())
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1][0], zip(asks, last, strict=False)))
        for ask, gpus in last[same:]:
            self._board.give(gpus)
            del self._last[ask.job]
        out = Round()
        for ask in asks[same:]:
            placed = self._placer(self._board, ask)
            if placed is None:  # the artifact stops at the first that does not fit
                break
            self._board.take(placed)
            self._last[ask.job] = (ask, placed)
            if self._held.get(ask.job) != placed:
                out.placed[ask.job] = placed
        out.stopped = [job for job in self._held if job not in self._last]
        self._held = {job: gpus for job, (_, gpus) in self._last.items()}
        return out

    def _head(self, order: Iterable[Ask]) -> list[Ask]:
        """What can be placed this round: nothing behind the first job that overfills the cluster ever is."""
        head: list[Ask] = []
        room = self._board.n_gpus
        for ask in order:
            room -= ask.gpus
            if room < 0:
                break
            head.append(ask)
        if self._sort:
            head.sort(key=lambda ask: ask.cls)
        return head


class Packed:
    """Running jobs keep their GPUs; a job ahead of them that does not fit stops them from the tail of the order."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._held: dict[int, Gpus] = {}

    def ended(self, job: int) -> None:
        self._board.give(self._held.pop(job, ()))

    def round(self, order: Iterable[Ask]) -> Round:
        out = Round()
        asks = order if isinstance(order, list) else list(order)
        for place, ask in enumerate(asks):
            if ask.job in self._held:
                continue
            gpus = self._board.packed(ask.gpus)
            if gpus is None:
                gpus = self._evict(asks, place, out)
            if gpus is None:
                break
            self._board.take(gpus)
            self._held[ask.job] = out.placed[ask.job] = gpus
        out.stopped = [job for job in out.stopped if job not in out.placed]
        return out

    def _evict(self, asks: list[Ask], place: int, out: Round) -> Gpus | None:
        if len(self._held) == 0:
            return None
        for victim in reversed(asks[place + 1 :]):
            if victim.job not in self._held:
                continue
            self._board.give(self._held.pop(victim.job))
            if victim.job in out.placed:  # it had only just been given a start
                del out.placed[victim.job]
            else:
                out.stopped.append(victim.job)
            gpus = self._board.packed(asks[place].gpus)
            if gpus is not None:
                return gpus
        return None


_MAKERS: Mapping[str, Callable[[Board], Rounds]] = {
    "artifact/pal": lambda board: Anew(board, PLACERS["pal"], sort_by_class=True),
    "artifact/pm-first": lambda board: Anew(board, PLACERS["pm-first"], sort_by_class=True),
    "artifact/packed-nonsticky": lambda board: Anew(board, PLACERS["packed"], sort_by_class=False),
    "artifact/packed-sticky": Packed,
}


def rounds_named(name: str, board: Board) -> Rounds:
    """The policy of that name on an empty board."""
    if name not in _MAKERS:
        raise ConfigError(f"No composition is called {name!r}; there are: {', '.join(_MAKERS)}.")
    return _MAKERS[name](board)


ARTIFACT_NAMES = tuple(_MAKERS)
