"""Nodes x slots. In: a sight, by what to colour. Out: blocks of neighbours, as small pictures or cell by cell.

A large fleet is shown as pictures, one stroke per run of equal neighbours, and a block is opened for its cells: a page
stays small however many GPUs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from pal_slurm.page.sight import Sight
from pal_slurm.report.figures import Gpu, State
from pal_slurm.report.heat import FOLD, ends, look_of, strokes
from pal_slurm.report.present import NodeNow, RunningNow

BY_JOB = "job"
HUES = 8  # of jobs
DETAILED = 1_024  # cells on one page
BLOCKS = 24  # pictures on one page


@dataclass(frozen=True, slots=True)
class GpuCell:
    look: str
    text: str
    title: str
    place: str  # as part of an address


@dataclass(frozen=True, slots=True)
class GridRow:
    node: str
    note: str  # what is wrong with it
    cells: tuple[GpuCell | None, ...]


@dataclass(frozen=True, slots=True)
class Block:
    number: int
    name: str
    model: str
    nodes: int
    gpus: int
    held: int
    width: int
    height: int
    strokes: tuple[tuple[str, str], ...]


def chunks(nodes: Sequence[NodeNow]) -> list[list[NodeNow]]:
    """Neighbours of one model."""
    found = []
    for _, same in groupby(nodes, key=lambda node: node.model):
        listed = list(same)
        found += [listed[i : i + FOLD] for i in range(0, len(listed), FOLD)]
    return found


def blocks(sight: Sight, colour: str, first: int) -> tuple[list[Block], int]:
    """The pictures of one page, from block number `first`; how many there are in all."""
    every = chunks(sight.nodes)
    some = every[first : first + BLOCKS]
    return [_block(number, nodes, sight, colour) for number, nodes in enumerate(some, first)], len(every)


def rows(nodes: Sequence[NodeNow], sight: Sight, colour: str) -> list[GridRow]:
    width = _width(nodes)
    return [
        GridRow(
            node.name,
            "" if node.ok else "takes no jobs",
            tuple(_cell(node, slot, sight, colour) if node.exists >> slot & 1 else None for slot in range(width)),
        )
        for node in nodes
    ]


def _width(nodes: Sequence[NodeNow]) -> int:
    return max((node.exists.bit_length() for node in nodes), default=0)


def _block(number: int, nodes: Sequence[NodeNow], sight: Sight, colour: str) -> Block:
    height = _width(nodes)
    looks = [
        [_look(node, slot, sight, colour) if node.exists >> slot & 1 else "" for node in nodes]
        for slot in range(height)
    ]
    gpus, idle = sum(node.exists.bit_count() for node in nodes), sum(node.free.bit_count() for node in nodes)
    return Block(
        number, ends([node.name for node in nodes]), nodes[0].model, len(nodes), gpus, gpus - idle, len(nodes), height,
        strokes(looks),
    )  # fmt: skip


def _look(node: NodeNow, slot: int, sight: Sight, colour: str) -> str:
    job = sight.holders.get((node.name, slot))
    if colour == BY_JOB:
        if job is not None:
            return f"j{job.job % HUES}"
        return "fr" if node.ok and node.free >> slot & 1 else "aw"
    gpu = sight.scores.gpus.get((node.name, slot))
    return look_of(gpu.marks[colour]) if gpu is not None else "nn"


def _cell(node: NodeNow, slot: int, sight: Sight, colour: str) -> GpuCell:
    job, gpu = sight.holders.get((node.name, slot)), sight.scores.gpus.get((node.name, slot))
    score = gpu.marks[colour].score if gpu is not None and colour != BY_JOB else None
    if colour == BY_JOB:
        text = str(job.job) if job is not None else "·" if node.free >> slot & 1 else "x"
    else:
        text = "–" if score is None else f"{score:.2f}"
    title = f"{node.name}:g{slot} {_state(node, slot, job)}{_scores(gpu)}"
    return GpuCell(_look(node, slot, sight, colour), text, title, place_of(node.name, slot))


def place_of(node: str, slot: int) -> str:
    """As part of an address."""
    return quote(f"{node}:g{slot}", safe="")


def _state(node: NodeNow, slot: int, job: RunningNow | None) -> str:
    if job is not None:
        return f"runs job {job.job}"
    if not node.ok:
        return "is away: its node takes no jobs"
    return "is free" if node.free >> slot & 1 else "is held by none that we know"


def _scores(gpu: Gpu | None) -> str:
    if gpu is None:
        return ""
    known = [f"{cls} {m.score:.2f}" for cls, m in gpu.marks.items() if m.score is not None and m.state is State.FRESH]
    return f"; {', '.join(known)}" if known else ""
