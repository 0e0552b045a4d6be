"""May these nodes be excluded for a job? In: a job, nodes, the snapshot. Out: why not, or nothing.

An exclusion starts nothing; what it may do is keep a job waiting for ever, or take from it what its user said. So
enough nodes must be left that it may have, are up, and suit all that it asks for, and its user's own list must be kept.
"""

from __future__ import annotations

from collections.abc import Collection

from pal_slurm.guard.constraints import check_features, check_partition
from pal_slurm.guard.verdict import Cause, No, Permit, Refusal
from pal_slurm.model import Decision, Job, Placement, Snapshot, Waits
from pal_slurm.model.hostlist import expand_hosts

SPARE = 2  # times the nodes that it needs


def check_exclusion(decision: Decision, nodes: Collection[str], snapshot: Snapshot) -> Permit | Refusal:
    try:
        job = next((job for job in snapshot.pending if job.id == decision.job), None)
        if job is None:
            raise No(Cause.NOT_PENDING, "it does not wait any more")
        _check_hands_off(job)
        _check_left(job, frozenset(nodes), snapshot)
    except No as no:
        return Refusal(decision, no.cause, f"job {decision.job}: {no.said}")
    return Permit(decision)


def _check_hands_off(job: Job) -> None:
    if job.hint.off:
        raise No(Cause.HANDS_OFF, "its user wrote pal:off")
    if job.required_nodes:
        raise No(Cause.HANDS_OFF, "its user named its nodes")
    if job.array_id is not None or job.het or job.exclusive or job.reservation or job.shape is None:
        raise No(Cause.HANDS_OFF, "it is an array, heterogeneous, exclusive, in a reservation, or oddly shaped")
    if job.lease is not None:
        raise No(Cause.HANDS_OFF, "it waits under a lease")
    if len(job.partitions) != 1:
        raise No(Cause.HANDS_OFF, "it names several partitions")
    if job.dependency:
        raise No(Cause.NOT_ELIGIBLE, "it waits for other jobs")
    if job.why is Waits.HELD:
        raise No(Cause.HELD, "somebody holds it")


def _check_left(job: Job, shut: frozenset[str], snapshot: Snapshot) -> None:
    """At least half of the nodes that it may have, and twice as many as it needs, stay open."""
    cluster = snapshot.cluster
    own = expand_hosts(job.excluded.own if job.excluded else job.excluded_nodes)
    if own is None:
        raise No(Cause.EXCLUDED, "its list of excluded nodes can't be read")
    if gone := sorted(shut - set(cluster.node_index)):
        raise No(Cause.NO_SUCH_NODE, f"there is no node {gone[0]}")
    may = {name for row, name in enumerate(cluster.node_names) if name not in own and _suits(job, row, snapshot)}
    left, least = len(may - shut), job.shape.min_nodes if job.shape else 1
    if left < SPARE * least or 2 * left < len(may):
        raise No(Cause.TOO_FEW_LEFT, f"only {left} of the {len(may)} nodes that it may have would be left")


def _suits(job: Job, row: int, snapshot: Snapshot) -> bool:
    """It is up, and has what the job asks of a node."""
    cluster, shape = snapshot.cluster, job.shape
    name = cluster.node_names[row]
    if shape is None or not cluster.node_ok[row]:
        return False
    most = max(shape.max_nodes, 1)
    gpus = shape.gpus_per_node or -(-(shape.gpus or 1) // most)
    if cluster.gpus_per_node[row] < gpus or cluster.cpus[row] < shape.cpus_on_each(most):
        return False
    if cluster.mem_mb[row] < shape.mem_on_each(most):
        return False
    there = Placement((name,), ((),), exact=False)
    try:
        check_partition(job, there, cluster)
        check_features(job, there, cluster)
    except No:
        return False
    return not any(name in window.nodes for window in snapshot.reservations if window.end > snapshot.taken)
