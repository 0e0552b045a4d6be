"""Whether a job may have a part of a GPU. In: the job, where, the snapshot. Out: whose GPU it is; or No.

A part that nobody else has is as good as the whole GPU: the job has it to itself until somebody comes. Beside another
goes only who may: both said pal:share and still do, both are of one owner, and there are two at most. An owner is an
account that Slurm holds users to; else a user.
"""

from __future__ import annotations

from collections.abc import Collection

from pal_slurm.guard.verdict import Cause, No, Rules
from pal_slurm.model import Job, Placement, Snapshot


def check_part(
    job: Job, placement: Placement, snapshot: Snapshot, rules: Rules, taken: Collection[tuple[int, int]]
) -> Job | None:
    """The job beside which it would run; None: nobody, and the GPU must be free. `taken`: what others are about to."""
    if not rules.parts or snapshot.cluster.parts is None or snapshot.cluster.parts_free is None:
        raise No(Cause.NO_PARTS, "no two jobs may have one GPU here")
    if not job.shares:
        raise No(Cause.HANDS_OFF, "it does not say pal:share, or can't be asked for as a part of a GPU")
    if any(other.array_id == job.array_id and other.array_limit for other in snapshot.pending if job.array_id):
        raise No(Cause.HANDS_OFF, "its array has a limit of its own")
    if len(placement.nodes) != 1 or len(placement.gpus[0]) != 1 or not placement.exact:
        raise No(Cause.SHAPE, "a part is of one GPU of one node, by its slot")
    node, slot = placement.nodes[0], placement.gpus[0][0]
    row = snapshot.cluster.node_index[node]
    if not 0 <= slot < snapshot.cluster.width or snapshot.cluster.parts[row, slot] < 2:
        raise No(Cause.NO_PARTS, f"GPU {slot} of {node} can't be given out in parts")
    there = [other for other in snapshot.running if _has(other, node, slot)]
    if not there:
        return None
    if (row, slot) in taken:
        raise No(Cause.GPU_TAKEN, f"another is about to share GPU {slot} of {node}")
    if len(there) > 1 or snapshot.cluster.parts_free[row, slot] != snapshot.cluster.parts[row, slot] - 1:
        raise No(Cause.NO_ROOM_BESIDE, f"on GPU {slot} of {node} there are two already")
    _check_pair(job, there[0], rules)
    return there[0]


def _has(job: Job, node: str, slot: int) -> bool:
    return any(name == node and slot in slots for name, slots in zip(job.nodes, job.holds, strict=False))


def _check_pair(job: Job, other: Job, rules: Rules) -> None:
    if not (other.shard and other.shares) or other.completing or other.suspended:
        raise No(Cause.NOT_ALIKE, f"job {other.id} does not share its GPU")
    owners = [(who.account, "" if rules.accounts and who.account else who.user) for who in (job, other)]
    known = all(who.user or (rules.accounts and who.account) for who in (job, other))
    if not known or owners[0] != owners[1]:
        raise No(Cause.NOT_ALIKE, f"job {other.id} is of another owner")
