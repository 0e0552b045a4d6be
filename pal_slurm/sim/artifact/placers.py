"""Which free GPUs one job gets, as the artifact chooses them. In: a board and an ask. Out: GPUs, or None."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pal_slurm.sim.artifact.board import Ask, Board, Gpus

Placer = Callable[[Board, Ask], Gpus | None]


def pal(board: Board, ask: Ask) -> Gpus | None:
    """Locality against variability for jobs of 2 GPUs up to a node; locality is ignored for all others."""
    if ask.gpus > board.n_free:
        return None
    if not 1 < ask.gpus <= board.width:
        return board.pm_first(ask.cls, ask.gpus)
    up_to = board.counts(ask.cls).cumsum(axis=0)  # free GPUs per node of at most that bin
    for worst_bin, within in board.choices[ask.cls]:
        if not within:
            if int(up_to[worst_bin].sum()) >= ask.gpus:
                return board.pm_first(ask.cls, ask.gpus)
        elif int(up_to[worst_bin].max()) >= ask.gpus:
            return board.within_node(ask.cls, worst_bin, ask.gpus, up_to[worst_bin])
    return None


def pm_first(board: Board, ask: Ask) -> Gpus | None:
    return board.pm_first(ask.cls, ask.gpus) if ask.gpus <= board.n_free else None


def packed(board: Board, ask: Ask) -> Gpus | None:
    return board.packed(ask.gpus)


PLACERS: Mapping[str, Placer] = {"pal": pal, "pm-first": pm_first, "packed": packed}
