"""The user's own words, and the site's constraints on single nodes. In: job, node, snapshot. Out: nothing, or No."""

from __future__ import annotations

import re

from pal_slurm.guard.verdict import Cause, No
from pal_slurm.model import ANYBODY, Cluster, Job, Placement, Reservation
from pal_slurm.model.hostlist import expand_hosts

FEATURE_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:=/+-")


SLOT = re.compile(r"gpu:g\d{1,3}(?![A-Za-z0-9_.+-])")


def check_words(job: Job, placement: Placement) -> None:
    """Its GPUs are asked for in one way, which a pin can keep: what Slurm is told must not change anything else."""
    words = (job.request.per_node, job.request.per_job, job.request.per_task, job.request.per_socket)
    ways = ["gpu" in text for text in words]
    if sum(ways) > 1 or ways[3]:
        raise No(Cause.HANDS_OFF, "it asks for its GPUs in two ways, or per socket")
    if any(SLOT.search(text) for text in words):
        raise No(Cause.HANDS_OFF, "its user named slots himself")
    if placement.exact and not placement.shard and (ways[2] or (job.shape is not None and not job.shape.by_slot)):
        raise No(Cause.NO_SLOTS, "by slot, it would not keep its CPUs or the GPUs of its tasks")


def check_partition(job: Job, placement: Placement, cluster: Cluster) -> None:
    """Every node belongs to each partition in which the job may run then."""
    named = placement.partition.split(",") if placement.partition is not None else list(job.partitions)
    if placement.partition is None and len(named) > 1:
        raise No(Cause.PARTITION, f"it asks for {', '.join(named)}, and the pin names none of them")
    for name in named:
        if name not in job.partitions:
            raise No(Cause.PARTITION, f"it does not ask for partition {name}")
        rule = cluster.rules.get(name, ANYBODY)
        if len(job.partitions) > 1 and not rule.admits(job):
            raise No(Cause.PARTITION, f"partition {name} does not take it: its time limit, nodes or QOS")
        if len(placement.nodes) > rule.most_nodes:
            raise No(Cause.PARTITION, f"partition {name} gives a job {rule.most_nodes} nodes at most")
        members = cluster.partitions.get(name)
        if members is None:
            raise No(Cause.PARTITION, f"partition {name} is down or unknown")
        for node in placement.nodes:
            if not members[cluster.node_index[node]]:
                raise No(Cause.PARTITION, f"{node} is not in partition {name}")


def check_features(job: Job, placement: Placement, cluster: Cluster) -> None:
    if not job.features:
        return
    words = job.features.replace(",", "&")
    either = "|" in words
    wanted = words.split("|" if either else "&")
    if (either and "&" in words) or not all(word and FEATURE_CHARS.issuperset(word) for word in wanted):
        raise No(Cause.FEATURES, "its feature expression is more than names joined by & or by |")
    for node in placement.nodes:
        has = [word in cluster.features[cluster.node_index[node]] for word in wanted]
        if not (any(has) if either else all(has)):
            raise No(Cause.FEATURES, f"{node} lacks features that it asks for")


def check_types(job: Job, placement: Placement, cluster: Cluster) -> None:
    """A model that its user named, as Slurm's own types have it."""
    if not job.types:
        return
    for node, slots in zip(placement.nodes, placement.gpus, strict=True):
        row = cluster.node_index[node]
        models = {cluster.models[cluster.gpu_model[row, slot]] for slot in slots}
        if models != set(job.types):
            raise No(Cause.MODEL, f"{node} has {', '.join(sorted(models))}, and it asks for {', '.join(job.types)}")


def check_excluded(job: Job, placement: Placement) -> None:
    if not job.excluded_nodes:
        return
    excluded = expand_hosts(job.excluded_nodes)
    if excluded is None:
        raise No(Cause.EXCLUDED, "its list of excluded nodes can't be read")
    for node in placement.nodes:
        if node in excluded:
            raise No(Cause.EXCLUDED, f"the user excluded {node}")


def check_reservations(job: Job, placement: Placement, reservations: tuple[Reservation, ...], now: float) -> None:
    """It would be gone, by its limit, before any window opens on its nodes."""
    ends = None if job.time_limit_s is None else now + job.time_limit_s
    for window in reservations:
        if window.end <= now or (ends is not None and ends <= window.start):
            continue
        for node in placement.nodes:
            if node in window.nodes:
                raise No(Cause.RESERVATION, f"{node} is reserved by {window.name} while the job would run")
