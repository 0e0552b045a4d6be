"""What a job asks for. In: a record's numbers and GRES texts. Out: Request, and the Shapes that plans reckon with."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from pal_slurm.model import Request, Shape
from pal_slurm.slurm import gres

_CPUS = re.compile(r"(?:cpu[:=][0-9]+)?")


class Demand(NamedTuple):
    """In Slurm's own words and numbers; equal ones share one answer."""

    per_node: str
    per_job: str
    per_task: str
    per_socket: str
    num_nodes: int | None
    max_nodes: int | None
    partition: str
    features: str
    marked: Request | None  # as our mark has it
    own_nodes: bool
    interactive: bool
    nodes_named: bool
    mem_per_gpu: str
    cpus_per_gpu: str
    ntasks: int | None
    ntasks_per_node: int | None
    cpus_per_task: int | None
    min_cpus_per_node: int | None
    cpus: int | None
    mem_per_node_mb: int | None
    mem_per_cpu_mb: int | None
    oversubscribes: bool = False


class Asked(NamedTuple):
    request: Request  # as it stands
    shape: Shape | None  # what it may be given; None: no GPU is asked for, or in a way that can't be pinned
    roughly: Shape  # what Slurm will look for, as far as it can be understood
    gpus: bool  # any at all
    slots: tuple[int, ...]
    types: tuple[str, ...]  # GPU models
    shard: bool  # it names parts of GPUs by slot
    by_part: bool  # its one GPU could be asked for as a part


@lru_cache(maxsize=8192)
def asked_of(demand: Demand) -> Asked:
    least, most = max(demand.num_nodes or 1, 1), max(demand.max_nodes or 0, 0)
    if most:  # of a pending job Slurm shows what it last reckoned with, which may be more than it may have
        least = min(least, most)
    texts = demand[:4]
    request = Request(*texts, least, most, demand.partition, demand.features)
    made = _as_made(request, demand)
    counts = _counts(made)
    shape = _shape(made, counts, demand) if any(counts) else None
    types = gres.types_in(*_texts(made))
    return Asked(
        request, shape, shape or _roughly(request), any(counts), gres.slots_in(*texts[:2]), types,
        gres.part_of_slot(*texts), shape is not None and not types and _by_part(made, shape, demand),
    )  # fmt: skip


def _texts(request: Request) -> tuple[str, str, str, str]:
    return request.per_node, request.per_job, request.per_task, request.per_socket


def _counts(request: Request) -> list[int]:
    return list(map(gres.count_of, _texts(request)))


def _roughly(request: Request) -> Shape:
    """Roughly: how many GPUs and nodes, also of a request that no Shape can express (per socket, odd counts ...)."""
    least, most = request.min_nodes, max(request.min_nodes, request.max_nodes)
    each, *others = _counts(request)
    if request.per_node:
        return Shape(least, most, gpus_per_node=max(each, 1))
    return Shape(least, most, gpus=max(*others, least))


def _shape(request: Request, counts: list[int], demand: Demand) -> Shape | None:
    each, total, of_task, of_socket = counts
    if of_socket or sum(map(bool, counts)) > 1 or gres.names_slots(*_texts(request)):
        return None  # said in two ways, or by slot, which is the user's own word
    least, max_nodes = request.min_nodes, request.max_nodes
    if of_task:
        if demand.cpus and demand.cpus < (demand.ntasks or 1):
            return None  # -O: 22.05 gives each task a CPU as soon as its nodes are named
        total = of_task * (demand.ntasks or 1)
    # Without -N Slurm takes the fewest nodes that do; a per-node request must not grow with their number.
    most = max(least, max_nodes or (least if each else min(total, demand.ntasks or total)))
    # Only a hint for planners of a job-wide request: the even split over the fewest nodes.
    on_each = each or -(-total // least)
    return Shape(
        min_nodes=least,
        max_nodes=most,
        gpus_per_node=each or None,
        gpus=None if each else total,
        fewest=not each,
        cpus_per_node=max(
            demand.min_cpus_per_node or 0,
            (demand.ntasks_per_node or 0) * (demand.cpus_per_task or 1),
            gres.amount_per_gpu(demand.cpus_per_gpu) * each,
        ),
        cpus=max(demand.cpus or 1, gres.amount_per_gpu(demand.cpus_per_gpu) * total),
        mem_per_node_mb=max(demand.mem_per_node_mb or 0, gres.amount_per_gpu(demand.mem_per_gpu) * on_each),
        mem_per_cpu_mb=demand.mem_per_cpu_mb or 0,
        shares_cpus=demand.oversubscribes,
        # By slot, steps would not get the GPUs of their tasks, Slurm counts the CPUs of one slot only, and srun asks
        # for the slots on a node of its allocation beside the --gpus-per-node of its user, which Slurm refuses.
        by_slot=not (of_task or (demand.cpus_per_gpu and max(each, total) > 1) or (demand.interactive and each)),
    )


def _by_part(made: Request, shape: Shape, demand: Demand) -> bool:
    """Whether a part of one GPU can stand where its one GPU stands, and nothing else is asked for otherwise."""
    if shape.least_gpus != 1 or shape.max_nodes != 1 or demand.interactive or demand.own_nodes:
        return False
    if demand.marked is not None and not all(map(gres.same, _texts(made), _texts(demand.marked))):
        return False  # edited since: without our records only what the mark says can be given back
    if demand.mem_per_gpu or demand.cpus_per_gpu or (gres.count_of(made.per_task) and (demand.ntasks or 1) != 1):
        return False
    others = (gres.beside(text) for text in (made.per_node, made.per_job, made.per_socket))
    return not any(others) and _CPUS.fullmatch(gres.beside(made.per_task)) is not None


def edited_since(made: Request, stands: Request, nodes: int) -> Request:
    """The request of a mark, and what its user has changed after the submission, as far as a pin of ours shows it.

    A pin asks for as many GPUs on as many nodes as the job did, in a partition that it named: other numbers, and
    another partition, are of somebody who edited it before it was pinned.
    """
    if not set(stands.partition.split(",")) <= {*made.partition.split(","), ""}:
        made = replace(made, partition=made.partition and stands.partition)
    if nodes < made.min_nodes or (made.max_nodes and nodes > made.max_nodes):
        made = replace(made, min_nodes=nodes, max_nodes=nodes)
    slots = len(gres.slots_in(stands.per_node, stands.per_job))
    if not slots:  # none is named, or none is named any more: what stands is its user's. Nothing at all is half an edit
        texts = _texts(stands)
        now = Request(*texts, made.min_nodes, made.max_nodes, made.partition, made.features)
        return now if any(_counts(stands)) else made
    if gres.part_of_slot(*_texts(stands)):
        return made
    if (each := gres.count_of(made.per_node)) and each != slots:
        return replace(made, per_node=gres.with_count(made.per_node, slots))
    if (total := gres.count_of(made.per_job)) and total != slots * nodes:
        return replace(made, per_job=gres.with_count(made.per_job, slots * nodes))
    return made


def _as_made(request: Request, demand: Demand) -> Request:
    """The request as the user made it: what stands now, unless it is a pin of ours, which always names nodes."""
    made = demand.marked
    if made is None:
        return request
    if demand.nodes_named and not demand.own_nodes:
        if gres.names_slots(*_texts(request)):
            return made
        return replace(request, min_nodes=made.min_nodes, max_nodes=made.max_nodes)
    # squeue can't say "no most": it shows the least number twice.
    if made.max_nodes == 0 and made.min_nodes == request.min_nodes == request.max_nodes:
        return replace(request, max_nodes=0)
    return request
