"""Jobs that Slurm starts in the place of others, by the tiers of partitions. In: decisions, the queue. Out: decisions.

Under a lease nobody preempts. Where PreemptType is preempt/partition_prio, one that finds no room, while a job that
would have to make way for it runs on its nodes, goes plain: Slurm decides whose place it takes. One that finds room is
placed as any other. Where QOS preempt, job_submit.lua leases nobody of them (leases/qos.py); one that was edited into
such a QOS under its lease is let go.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pal_slurm.daemon.rivals import allowed
from pal_slurm.guard import Rules
from pal_slurm.model import ANYBODY, Action, Decision, FloatArray, Reason, Snapshot

FOR_ROOM = (Reason.NO_ROOM, Reason.BEHIND_HEAD)


def let_preempt(decisions: Sequence[Decision], view: Snapshot, rules: Rules) -> Sequence[Decision]:
    return list(_decided(decisions, view, _tiers_that_make_way(view))) if rules.preempts_by_tier else decisions


def those_of(qos: Collection[str], snapshot: Snapshot) -> Snapshot:
    """The same queue; who is leased, and of a QOS that may preempt, is Slurm's to place."""
    if not any(job.lease is not None and job.qos in qos for job in snapshot.pending):
        return snapshot
    ours = (job.lease is not None and job.qos in qos for job in snapshot.pending)
    jobs = (replace(job, slurms=True) if mine else job for job, mine in zip(snapshot.pending, ours, strict=True))
    return replace(snapshot, pending=tuple(jobs))


def _decided(decisions: Sequence[Decision], view: Snapshot, tiers: FloatArray) -> Iterator[Decision]:
    jobs = {job.id: job for job in view.pending}
    lowest: dict[tuple[str, ...], float] = {}  # by the partitions of a job
    for d in decisions:
        job = jobs[d.job]
        if d.action is not Action.WAIT or d.reason not in FOR_ROOM:
            yield d
            continue
        if job.partitions not in lowest:
            lowest[job.partitions] = float(tiers[allowed(job.partitions, view.cluster)].min(initial=math.inf))
        if job.tier <= lowest[job.partitions]:
            yield d
            continue
        tasks: Sequence[int | None] = (job.array_tasks or (job.array_task,)) if d.task is None else (d.task,)
        for task in tasks:
            yield replace(d, action=Action.PLAIN, reason=Reason.MAY_PREEMPT, task=task, placement=None)


def _tiers_that_make_way(view: Snapshot) -> FloatArray:
    """(N,) the lowest tier of a job there that has to make way for a higher one; infinity: none has."""
    rules, cluster = view.cluster.rules, view.cluster
    tiers: FloatArray = np.full(cluster.n_nodes, math.inf)
    for job in view.running:
        rule = rules.get(job.partitions[0], ANYBODY) if job.partitions else ANYBODY
        for row in [cluster.node_index[name] for name in job.nodes if name in cluster.node_index]:
            if rule.preempted:
                tiers[row] = min(tiers[row], rule.tier)
    return tiers
