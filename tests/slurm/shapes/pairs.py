"""Combinations of options, drawn so that every two values that may stand together do so in some row. Out: sbatch lines.

A greedy covering array: each row takes, factor by factor, the value that covers most pairs that no row has yet. The
same values give the same rows; an empty value stands for an option that is not given.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations as pick
from itertools import product

FACTORS = (
    ("--gres=gpu:1", "--gres=gpu:2", "--gpus=1", "--gpus=2", "--gpus=4", "--gpus-per-node=2", "-n2 --gpus-per-task=1"),
    ("", "-N1", "-N2", "-N1-3"),
    ("", "-c 3", "--cpus-per-gpu=2", "--mincpus=5", "--ntasks-per-socket=1"),
    ("", "--mem=1500", "--mem-per-cpu=250", "--mem-per-gpu=900", "--mem=0"),
    ("", "-x {first}", "-C {rack}", "--contiguous", "--use-min-nodes", "--exclusive"),
    ("", "-t 20 --time-min=5", "--nice=50 --no-requeue", "--licenses=matlab:1", "--begin=now+3", "-O"),
)
# Slurm itself refuses these, or takes them as one thing (man sbatch).
_APART = (
    ("--gpus=1", "-N2"),
    ("--exclusive", "--cpus-per-gpu=2"),
)

Pair = tuple[tuple[int, str], tuple[int, str]]


def _together(a: str, b: str) -> bool:
    return (a, b) not in _APART and (b, a) not in _APART


def _pairs(values: tuple[str, ...]) -> set[Pair]:
    return set(pick(enumerate(values), 2))


def wanted() -> set[Pair]:
    """Every two values of two factors that may stand together."""
    return {
        ((i, a), (j, b))
        for (i, one), (j, two) in pick(enumerate(FACTORS), 2)
        for a, b in product(one, two)
        if _together(a, b)
    }


def covering() -> Iterator[tuple[str, ...]]:
    left = wanted()
    while left:
        chosen: dict[int, str] = dict(min(left))
        for i, values in enumerate(FACTORS):
            if i not in chosen:
                fit = [v for v in values if all(_together(v, other) for other in chosen.values())]
                chosen[i] = max(fit, key=lambda v: sum(_pair(i, v, j, w) in left for j, w in chosen.items()))
        row = tuple(chosen[i] for i in range(len(FACTORS)))
        left -= _pairs(row)
        yield row


def _pair(i: int, a: str, j: int, b: str) -> Pair:
    return ((i, a), (j, b)) if i < j else ((j, b), (i, a))


def combinations() -> list[str]:
    """As lines of sbatch."""
    return list(dict.fromkeys(" ".join(filter(None, row)) for row in covering()))
