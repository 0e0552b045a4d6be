"""The heat map: which colour a score has, and GPUs in folds of nodes. In: GPUs with marks. Out: folds, strips, cells.

Colours are steps, not a gradient: eyes tell eight steps apart, and a legend can name them. Blue is fast, orange to
brown is slow, which colour-blind people tell apart as well; lightness falls or rises along the slow side.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from pal_slurm.report.figures import Gpu, Mark, State
from pal_slurm.report.spread import fresh
from pal_slurm.report.text import fold, natural

EDGES = (0.95, 0.98, 1.02, 1.05, 1.10, 1.20, 1.30)
LEGEND = (
    "below 0.95", "0.95 to 0.98", "0.98 to 1.02", "1.02 to 1.05", "1.05 to 1.10", "1.10 to 1.20", "1.20 to 1.30",
    "1.30 and above",
)  # fmt: skip
FOLD = 64  # nodes in one fold; a fleet of one fold per model is shown unfolded
DETAILED = 4_000  # cells; with more of them, each is its number only
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Cell:
    look: str  # classes of the style sheet
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    node: str
    cells: tuple[Cell | None, ...]  # by slot; None: no such slot


@dataclass(frozen=True, slots=True)
class Strip:
    """The same cells as a small picture: a column per node, a line per slot."""

    cls: str
    title: str
    height: int
    paths: tuple[tuple[str, str], ...]  # look, SVG path


@dataclass(frozen=True, slots=True)
class Sheet:
    cls: str
    rows: tuple[NodeRow, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    name: str
    model: str
    gpus: int
    nodes: int
    slots: int
    worst: str  # a sentence; empty: nothing is known
    sheets: tuple[Sheet, ...]
    strips: tuple[Strip, ...]


def level(score: float) -> int:
    return bisect_right(EDGES, score)


def folds(gpus: Sequence[Gpu], classes: Sequence[str]) -> list[Fold]:
    """By model, then by name, so that n2 comes before n10."""
    detailed = len(gpus) * len(classes) <= DETAILED
    by_node: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        by_node.setdefault(gpu.node, []).append(gpu)
    ordered = sorted(by_node.values(), key=lambda mine: (mine[0].model, natural(mine[0].node)))
    made = []
    for model, nodes in groupby(ordered, key=lambda mine: mine[0].model):
        listed = list(nodes)
        made += [_fold(model, listed[i : i + FOLD], classes, detailed) for i in range(0, len(listed), FOLD)]
    return made


def named(nodes: Iterable[str], most: int) -> str:
    """All of the nodes, folded; of more than fit, the first and how many more there are."""
    names = sorted(set(nodes), key=natural)
    if all(map(_PLAIN.fullmatch, names)) and len(folded := fold(names)) <= most:
        return folded
    shown = [name for name, end in zip(names, accumulate(len(name) + 2 for name in names), strict=True) if end <= most]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def ends(nodes: Sequence[str]) -> str:
    """Some neighbours: folded where that is one range, else by the first and the last."""
    folded = fold(nodes) if all(map(_PLAIN.fullmatch, nodes)) else ""
    if folded and "," not in folded:
        return folded
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} to {nodes[-1]}"


def _fold(model: str, nodes: Sequence[Sequence[Gpu]], classes: Sequence[str], detailed: bool) -> Fold:
    members = [gpu for mine in nodes for gpu in mine]
    slots = max(gpu.slot for gpu in members) + 1
    known = [(score, gpu, cls) for gpu in members for cls in classes if (score := fresh(gpu, cls)) is not None]
    worst = ""
    if known:
        score, gpu, cls = max(known, key=lambda entry: entry[0])
        worst = f"slowest {score:.2f} (class {cls}) at {gpu.node}:g{gpu.slot}"
    grid = [{gpu.slot: gpu for gpu in mine} for mine in nodes]
    return Fold(
        name=ends([mine[0].node for mine in nodes]),
        model=model,
        gpus=len(members),
        nodes=len(nodes),
        slots=slots,
        worst=worst,
        sheets=tuple(Sheet(cls, tuple(_row(mine, slots, cls, detailed) for mine in grid if mine)) for cls in classes),
        strips=tuple(_strip(grid, slots, cls) for cls in classes),
    )


def _row(mine: dict[int, Gpu], slots: int, cls: str, detailed: bool) -> NodeRow:
    node = next(iter(mine.values())).node
    cells = (mine.get(slot) for slot in range(slots))
    return NodeRow(node, tuple(_cell(gpu, gpu.marks[cls], detailed) if gpu else None for gpu in cells))


def _cell(gpu: Gpu, mark: Mark, detailed: bool) -> Cell:
    text = "–" if mark.score is None else f"{mark.score:.2f}"
    return Cell(look_of(mark), text, _title(gpu, mark) if detailed else "")


def look_of(mark: Mark) -> str:
    if mark.score is None:
        return "nn"
    return f"h{level(mark.score)}" if mark.state is State.FRESH else "st"


def _title(gpu: Gpu, mark: Mark) -> str:
    place = f"{gpu.node}:g{gpu.slot}"
    if mark.score is None:
        return f"{place} was never profiled; {gpu.uuid}"
    between = "" if mark.low is None or mark.high is None else f" ({mark.low:.3f} to {mark.high:.3f})"
    stale = ", stale: counts as 1.0" if mark.state is State.STALE else ""
    return f"{place} {mark.score:.3f}{between}, {mark.age_days:.1f} days old{stale}; {gpu.uuid}"


def _strip(grid: Sequence[dict[int, Gpu]], slots: int, cls: str) -> Strip:
    looks = [[look_of(mine[slot].marks[cls]) if slot in mine else "" for mine in grid] for slot in range(slots)]
    slow = sum(1 for mine in grid for gpu in mine.values() if (fresh(gpu, cls) or 0.0) >= EDGES[-1])
    title = f"class {cls}: {slow} GPUs at {EDGES[-1]:.2f} or above"
    return Strip(cls, title, slots, strokes(looks))


def strokes(looks: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """A line per slot, a column per node, each with its look: one path per look, neighbours of one look one stroke."""
    paths: dict[str, list[str]] = {}
    for slot, line in enumerate(looks):
        x = 0
        for what, run in groupby(line):
            length = len(list(run))
            if what:
                paths.setdefault(what, []).append(f"M{x} {slot}h{length}")
            x += length
    return tuple((what, "".join(parts)) for what, parts in sorted(paths.items()))
