"""What job_submit.lua does, for simulations. In: a job before it is queued. Out: its lease, as the lua gives it.

A second copy, of the lease alone: no options of the plugin, no models, and nobody passes.
tests/unit/test_sim_leasing.py holds it against the lua itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.slurm import gres

_PLAIN = re.compile(r"[!-~]{1,512}")
_LEFT_ALONE = re.compile(r"[;{}]")
_ASKS = re.compile(r"(?:^| )pal:move(?:[ =]|$)")


@dataclass
class Leasing:
    """Controller.plugin. `alive`: whether pald's sign of life is fresh."""

    alive: Callable[[float], bool]
    length_s: int = 20
    told: Callable[[], int | None] = lambda: None  # the length that pald wrote beside its sign of life
    partitions: frozenset[str] = frozenset()  # managed; none: all
    default: str = "gpu"  # Slurm's default partition
    shards: str = "pald"  # whose they are

    def __call__(self, job: SimJob, now: float) -> None:
        record = job.record
        managed = not self.partitions or not self.partitions.isdisjoint((record.partition or self.default).split(","))
        asks = any(map(gres.count_of, (record.per_node, record.per_job, record.per_task, record.per_socket)))
        if not (managed and asks and self.alive(now)) or record.reservation or job.recounts:
            return
        own = int(job.begin) if job.begin > now else None
        end = max(int(now) + (self.told() or self.length_s), own or 0)
        if (made := mark(job, end, own, self.shards)) is not None:
            record.admin_comment = f"{made} {record.admin_comment}".rstrip()
            job.begin = end


def mark(job: SimJob, end: int, own: int | None, shards: str = "pald") -> str | None:
    """None when a value could be misread."""
    record = job.record
    parts = [f"b={end}"] + ([f"u={own}"] if own else [])
    least, most = record.num_nodes or 0, record.max_nodes or 0
    fields = {
        "n": record.per_node, "j": record.per_job, "t": record.per_task, "s": record.per_socket,
        "N": f"{least or ''}-{most or ''}" if least or most else "",
        "P": record.partition, "f": record.features,
    }  # fmt: skip
    for key, value in fields.items():
        if value and (not _PLAIN.fullmatch(value) or _LEFT_ALONE.search(value)):
            return None
        if value:
            parts.append(f"{key}={value}")
    if record.required_nodes:
        parts.append("r=1")
    if job.said_requeue is not None:
        parts.append(f"q={job.said_requeue:d}")
    if _ASKS.search(record.comment or ""):
        parts.append("m=1")
    if " pal:share " in f" {record.comment or ''} ":
        parts.append("h=1" if shards == "pald" else "h=u")
    return "pal1{" + ";".join(parts) + "}"
