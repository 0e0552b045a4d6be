"""Settings of sites that decide where Slurm starts a job: CPUs that several have, blocks, and what pald can't see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.daemon.reconcile import Fate, has_room, judge
from pal_slurm.model import Action, Cluster, Decision, Job, Knowledge, Shape, Waits, homogeneous, neutral_scores
from pal_slurm.policy import compose, plan
from pal_slurm.slurm.commands.cluster import read_partitions, read_topology
from pal_slurm.slurm.nodes import Machine, NodeRecord, PartitionRecord, SiteWords
from pal_slurm.slurm.snapshots import to_snapshot
from tests.builders import leased, scores, snapshot
from tests.unit.test_daemon_reconcile import intent, pinned, view
from tests.unit.test_topology import EIGHT, SHOWN, SHOWN_BLOCKS

PAIR = Shape(2, 2, gpus_per_node=1)


def decided(cluster: Cluster, job: Job, known: Knowledge | None = None) -> Decision:
    (found,) = plan(
        snapshot(job, cluster=cluster), known or Knowledge(neutral_scores(cluster)), compose("pal")
    ).decisions
    return found


@pytest.mark.parametrize(
    ("told", "which"),
    [("NO", ""), ("EXCLUSIVE", ""), ("FORCE:1", ""), ("YES:1", ""), ("FORCE:4", "FORCE"), ("YES:4", "YES")],
)
def test_a_partition_tells_whose_cpus_others_get_too(told: str, which: str) -> None:
    (record,) = read_partitions(f"PartitionName=gpu Nodes=n1 State=UP OverSubscribe={told}".encode()).values()
    assert record.oversubscribed == which


@pytest.mark.parametrize(
    ("partition", "asks", "may"),
    [("FORCE", False, True), ("FORCE", True, True), ("YES", True, True), ("YES", False, False), ("", True, False)],
)
def test_a_job_may_have_cpus_of_others_as_its_partition_has_it(partition: str, asks: bool, may: bool) -> None:
    machine = Machine(
        [NodeRecord("n1", "IDLE", gres="gpu:g0:1")], [PartitionRecord("gpu", "n1", oversubscribed=partition)], []
    )
    job = leased(1, shape=Shape(gpus=1, shares_cpus=asks), partitions=("gpu",))
    (seen,) = to_snapshot(machine, [job], SiteWords()).pending
    assert seen.shape is not None and seen.shape.shares_cpus is may


def test_who_may_have_cpus_of_others_is_let_go_where_only_cpus_are_lacking() -> None:
    busy = replace(homogeneous(2, 4), cpus_free=np.array([0, 0], dtype=np.int32))
    half = replace(homogeneous(2, 4), cpus_free=np.array([0, 8], dtype=np.int32))
    full = replace(busy, gpu_free=np.zeros((2, 4), dtype=np.bool_))
    shares = Shape(gpus=1, cpus=4, shares_cpus=True)
    assert decided(busy, leased(1, shape=shares)).action is Action.PLAIN
    assert decided(busy, leased(1, shape=replace(shares, shares_cpus=False))).action is Action.WAIT
    assert decided(full, leased(1, shape=shares)).action is Action.WAIT
    found = decided(half, leased(1, shape=shares))
    assert found.action is Action.START and found.placement is not None and found.placement.nodes == ("n2",)


def blocks(shown: str) -> Cluster:
    machine = Machine([NodeRecord(name, "IDLE", 8, gres="gpu:g0:1") for name in EIGHT], [], [], read_topology(shown))
    return to_snapshot(machine, [], SiteWords()).cluster


@pytest.mark.parametrize(("nodes", "within"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8)])
def test_nodes_of_one_job_are_of_one_block_where_it_fits_into_one(nodes: int, within: int) -> None:
    cluster = blocks(SHOWN_BLOCKS)
    fast = {0, 3, 4, 7, 1}
    known = Knowledge(scores(A=[[1.0 if row in fast else 1.5] for row in range(8)]))
    job = leased(1, shape=Shape(nodes, nodes, gpus_per_node=1))
    where = decided(cluster, job, known).placement
    assert where is not None and len({(int(name[1:]) - 1) // within for name in where.nodes}) == 1


def test_a_tree_has_no_blocks_and_who_finds_no_block_with_room_waits() -> None:
    assert blocks(SHOWN).blocks == ()
    cluster = blocks(SHOWN_BLOCKS)
    odd = np.array([[row % 2 == 0] for row in range(8)])
    assert decided(replace(cluster, gpu_free=odd), leased(1, shape=PAIR)).action is Action.WAIT
    assert decided(replace(cluster, gpu_free=odd, blocks=()), leased(1, shape=PAIR)).action is Action.START


def test_a_pin_that_waits_where_all_is_free_is_not_tried_again() -> None:
    waits = pinned(why=Waits.ROOM)
    seen = view(waits, main=12)
    assert judge(intent(), replace(seen, room={1: replace(seen.passes, main=11)})).fate is Fate.SURRENDER
    assert judge(intent(), replace(seen, room={1: seen.passes})).fate is Fate.UNDO, "no pass has looked since"
    turn = view(replace(waits, why=Waits.TURN), backfill=7)
    assert judge(intent(), replace(turn, room={1: replace(turn.passes, main=1)})).fate is Fate.UNDO


def test_room_for_a_pin_is_gpus_cpus_and_memory_where_it_stands() -> None:
    cluster, waits = homogeneous(6, 4), pinned(shape=Shape(2, 2, gpus_per_node=2, cpus=2, mem_per_node_mb=10))
    taken = cluster.gpu_free.copy()
    taken[1, 3] = False
    assert has_room(intent(), waits, cluster)
    nothing = np.zeros(6, dtype=np.int32)
    short: list[dict[str, Any]] = [{"gpu_free": taken}, {"cpus_free": nothing}, {"mem_free_mb": nothing}]
    assert not any(has_room(intent(), waits, replace(cluster, **lacks)) for lacks in short)
    assert not has_room(intent(), waits, homogeneous(2, 4)), "its node is gone"
