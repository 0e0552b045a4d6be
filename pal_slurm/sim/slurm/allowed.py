"""Which nodes a job may have, whoever holds them now. In: the controller's nodes and reservations, a job. Out: rows."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.slurm.nodes import ReservationRecord
from pal_slurm.slurm.nodeset import expand

if TYPE_CHECKING:
    from pal_slurm.sim.slurm.controller import Controller


def rows_for(c: Controller, job: SimJob, partition: str, *, up: bool = True) -> tuple[int, ...]:
    """The nodes that it may have by name and feature, whoever holds them now."""
    r = job.record
    key = (partition, r.features, r.excluded_nodes, up)
    found = c.found_rows.get(key)
    if found is None:
        names = next((expand(p.nodes) for p in c.partitions if p.name == partition and p.up), frozenset())
        names -= expand(r.excluded_nodes)
        nodes = ((row, node) for row, node in enumerate(c.nodes) if node.name in names and (node.up or not up))
        found = tuple(row for row, node in nodes if has(node.features, r.features))
        c.found_rows[key] = found
    closed = [v for v in c.reservations if v.name != r.reservation and _meets(c, v, job)]
    if closed or r.reservation:
        shut = {c.row[n] for v in closed for n in expand(v.nodes) if n in c.row}
        own = {c.row[n] for v in c.reservations if v.name == r.reservation for n in expand(v.nodes)}
        found = tuple(row for row in found if row not in shut and (not r.reservation or row in own))
    return found


def _meets(c: Controller, reservation: ReservationRecord, job: SimJob) -> bool:
    return reservation.start < c.now + job.limit_s and c.now < reservation.end


@lru_cache(maxsize=4096)
def has(features: str, wanted: str) -> bool:
    """`a100&rack1`, `rack1|rack2`, `(rack1|rack2)&a100`: all of the groups, one of each group."""
    own = set(features.split(","))
    groups = [group.strip("()").split("|") for group in wanted.split("&")] if wanted else []
    return all(any(name in own for name in group) for group in groups)
