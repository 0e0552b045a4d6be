"""`thrift` leaves racks with room to jobs that need several nodes; the share that is free follows the floor."""

from __future__ import annotations

import random

import numpy as np

from pal_slurm.model import Apps, Job, Knowledge, Placement, Shape, homogeneous, neutral_scores
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.rackroom import STEPS, RackRoom, dearer_racks
from pal_slurm.policy.seams import placements
from tests.builders import waiting


def job(number: int, gpus: int) -> Job:
    return waiting(number, partitions=("gpu",), shape=Shape(max_nodes=1, gpus=gpus))


def test_a_job_on_one_node_goes_to_the_rack_with_less_room() -> None:
    cluster = homogeneous(6, 4, rack_size=2)
    floor = Floor(cluster, Knowledge(neutral_scores(cluster), Apps({})))
    thrift, app = placements.get("thrift"), floor.knowledge.apps.get("")
    floor.take(job(1, 4), Placement(("n4",), ((0, 1, 2, 3),), exact=True))
    second = thrift.place(job(2, 4), app, floor)
    assert second is not None and second.nodes == ("n3",)  # n1, n2 and n5, n6 stay together
    floor.take(job(2, 4), second)
    third = thrift.place(job(3, 1), app, floor)
    assert third is not None and third.nodes == ("n1",)
    floor.take(job(3, 1), third)
    floor.give(job(1, 4), Placement(("n4",), ((0, 1, 2, 3),), exact=True))
    fourth = thrift.place(job(4, 4), app, floor)
    assert fourth is not None and fourth.nodes == ("n4",)


def test_the_share_that_is_free_follows_what_is_taken_and_given_back() -> None:
    rng = random.Random(5)
    cluster = homogeneous(12, 4, rack_size=4)
    floor = Floor(cluster, Knowledge(neutral_scores(cluster), Apps({})))
    held: dict[int, Placement] = {}
    for number in range(300):
        if held and rng.random() < 0.5:
            gone = rng.choice(sorted(held))
            floor.give(job(gone, 1), held.pop(gone))
        else:
            rows = np.flatnonzero(floor.n_free).tolist()
            if not rows:
                continue
            row = rng.choice(rows)
            slot = int(floor.free[row].nonzero()[0][0])
            held[number] = Placement((cluster.node_names[row],), ((slot,),), exact=True)
            floor.take(job(number, 1), held[number])
        if rng.random() < 0.7:
            free = floor.n_free.reshape(3, 4).sum(axis=1)
            assert dearer_racks(floor, 0.5).tolist() == np.repeat(1 + 0.5 * (STEPS * free // 16 / STEPS), 4).tolist()
            twin = floor.emptied()
            assert dearer_racks(twin, 0.5).tolist() == [1.5] * 12
            assert dearer_racks(floor, 0.5).tolist() == RackRoom(floor, 0.5).factor(floor).tolist()
