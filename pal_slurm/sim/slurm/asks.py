"""What a job asks for, and where it fits. In: a JobRecord, what nodes have to give. Out: Want; the parts it would get.

As select/cons_tres does it on equal nodes: as few nodes as will do, the lowest first, on each the lowest free devices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from pal_slurm.sim.slurm.machine import Free, Part, lowest
from pal_slurm.slurm import gres
from pal_slurm.slurm.records import JobRecord

DEFAULT_MB_PER_CPU = 100


@dataclass(frozen=True, slots=True)
class Want:
    least: int  # nodes
    most: int
    each: int = 0  # GPUs on each node, whichever
    total: int = 0  # GPUs in all, whichever
    slots: int = 0  # bits that each node must give
    shards: int = 0  # the same of GPUs of which a part will do
    never: bool = False  # no node has what it asks for by name, or not as it asks for it
    cpus: int = 1  # in all
    cpus_each: int = 1
    cpus_per_gpu: int = 0
    mem_each: int = 0
    mem_per_cpu: int = 0
    mem_per_gpu: int = 0
    whole: bool = False  # nodes to itself

    def part(self, row: int, gpus: int, nodes: int, free: Free, idle: Free) -> Part | None:
        """What it gets on this node with so many GPUs, one of `nodes`; None: that is not there."""
        if self.whole:
            return Part(row, idle.slots, idle.cpus, idle.mem_mb) if free == idle else None
        slots = self.slots or lowest(free.slots, gpus)
        if slots & ~free.slots or (gpus and not slots):
            return None
        if self.shards & ~free.open:
            return None
        n = slots.bit_count()
        cpus = max(self.cpus_each, -(-self.cpus // nodes), self.cpus_per_gpu * n)
        mem = max(self.mem_each, self.mem_per_cpu * cpus, self.mem_per_gpu * n)
        return Part(row, slots, cpus, mem, self.shards) if cpus <= free.cpus and mem <= free.mem_mb else None


def ask_of(record: JobRecord) -> Want:
    node, job, task = (gres.gpus_in(text) for text in (record.per_node, record.per_job, record.per_task))
    least, most = record.num_nodes or 1, record.max_nodes or 0
    tasks = record.ntasks or 1
    typed = {item.type: item.n for item in (*node, *job) if item.type}
    share = {item.type: item.n / least for item in job if item.type} | {i.type: float(i.n) for i in node if i.type}
    named = [int(kind[1:]) if kind[0] == "g" and kind[1:].isdigit() else -1 for kind in typed]
    each = sum(item.n for item in node if not item.type) + gres.count_of(record.per_socket)
    total = sum(item.n for item in job if not item.type) + sum(item.n for item in task) * tasks
    if each and total:  # both: so many nodes as the one makes of the other
        least = most = max(least, total // each)
        total = 0
    if not most:
        most = max(least, min(total, tasks) if total else tasks)
    parts = [item.type for item in gres.items_in(record.per_node, ("shard",))]
    per_gpu_mem = gres.amount_per_gpu(record.mem_per_gpu)
    return Want(
        least=least,
        most=least if each or typed or parts else max(least, most),
        each=each,
        total=total,
        slots=sum(1 << slot for slot in named if slot >= 0),
        shards=sum(1 << int(kind[1:]) for kind in parts if kind[:1] == "g"),
        # Parts in total are taken at their word, and never found.
        never=-1 in named or any(n != 1 for n in share.values()) or "shard" in record.per_job,
        cpus=max(record.cpus or 1, tasks * (record.cpus_per_task or 1)),
        cpus_each=max(record.min_cpus_per_node or 1, (record.ntasks_per_node or 1) * (record.cpus_per_task or 1)),
        cpus_per_gpu=gres.amount_per_gpu(record.cpus_per_gpu),
        mem_each=record.mem_per_node_mb or 0,
        mem_per_cpu=record.mem_per_cpu_mb or (0 if record.mem_per_node_mb or per_gpu_mem else DEFAULT_MB_PER_CPU),
        mem_per_gpu=per_gpu_mem,
        whole=record.exclusive,
    )


Frees = Callable[[int], Free]


def choose(ask: Want, rows: Sequence[int], must: Collection[int], free: Frees, idle: Frees) -> tuple[Part, ...] | None:
    """The parts that it would get of these nodes, all of `must` among them; None: it does not fit."""
    if ask.never or not set(must) <= set(rows):
        return None
    order = [*sorted(must), *(row for row in rows if row not in must)] if must else list(rows)
    least = max(ask.least, len(must))
    if ask.total and not ask.slots:
        return _spread(ask, order, least, len(must), free, idle)
    for nodes in range(least, max(least, ask.most) + 1):
        found: list[Part] = []
        for place, row in enumerate(order):
            part = ask.part(row, ask.each, nodes, free(row), idle(row))
            if part is not None:
                found.append(part)
            elif place < len(must):
                break
            if len(found) == nodes:
                return tuple(found)
    return None


def _spread(
    ask: Want, rows: Sequence[int], least: int, musts: int, free: Frees, idle: Frees
) -> tuple[Part, ...] | None:
    """A total, split as it comes: as much as there is on the first nodes, at least one GPU on each."""
    there = {row: free(row).slots.bit_count() for row in rows}
    for nodes in range(least, min(max(least, ask.most), len(rows)) + 1):
        if nodes == 1:
            roomy = [row for row in rows[: musts or None] if there[row] >= ask.total]
            parts = (ask.part(row, ask.total, 1, free(row), idle(row)) for row in roomy)
            if (part := next((part for part in parts if part), None)) is not None:
                return (part,)
            continue
        usable = [row for row in rows if there[row] and ask.part(row, 1, nodes, free(row), idle(row))]
        if len(usable) < nodes or usable[:musts] != list(rows[:musts]):
            continue
        rest = sorted(usable[musts:], key=lambda row: -there[row])
        for order in (usable[:nodes], [*usable[:musts], *rest][:nodes]):
            if (parts_of := _share(ask, order, there, free, idle)) is not None:
                return parts_of
    return None


def _share(ask: Want, order: Sequence[int], there: dict[int, int], free: Frees, idle: Frees) -> tuple[Part, ...] | None:
    left, found = ask.total, []
    for place, row in enumerate(order):
        n = min(there[row], left - (len(order) - place - 1))
        part = ask.part(row, n, len(order), free(row), idle(row)) if n > 0 else None
        if part is None:
            return None
        found.append(part)
        left -= n
    return tuple(found) if not left or ask.whole else None
