"""Which devices of a node are free, by what slurmctld 26.05.5, 24.11.5 and 22.05.8 wrote; shared ones too."""

import math

import numpy as np
import pytest

from pal_slurm.model import Knowledge, neutral_scores
from pal_slurm.policy import Planner, compose
from pal_slurm.slurm import gres
from pal_slurm.slurm.devices import taken
from pal_slurm.slurm.nodes import PLAIN_WORDS, Machine, NodeRecord
from pal_slurm.slurm.records import JobRecord, to_job
from pal_slurm.slurm.snapshots import to_snapshot

SLOTS = "gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1,shard:g0:2,shard:g1:2,shard:g2:2,shard:g3:2"
SLOTS_BUSY = "gpu:g0:0(IDX:N/A),gpu:g1:1(IDX:1),gpu:g2:0(IDX:N/A),gpu:g3:0(IDX:N/A),shard:g0:0(%s),shard:g1:0(%s)"
NEW_SLOTS = SLOTS_BUSY % ("0/2", "0/2") + ",shard:g2:1(1/2),shard:g3:2(2/2)"
OLD_SLOTS = SLOTS_BUSY % ("IDX:N/A", "IDX:N/A") + ",shard:g2:1(IDX:2),shard:g3:1(IDX:3)"


@pytest.mark.parametrize(
    ("configured", "used", "held", "expected"),
    [
        (SLOTS, NEW_SLOTS, (), {1, 2, 3}),
        (SLOTS, OLD_SLOTS, (), {1, 2, 3}),
        (SLOTS, NEW_SLOTS.replace("shard:g1:0(0/2)", "shard:g1:0(-/2)"), (), {1, 2, 3}),
        (SLOTS, NEW_SLOTS.replace("gpu:g1:1(IDX:1)", "gpu:g1:0(IDX:N/A)"), (), {2, 3}),
        ("gpu:a100:4,shard:a100:8", "gpu:a100:1(IDX:0),shard:a100:3(1/2,2/2,0/2,0/2)", (), {0, 1}),
        ("gpu:a100:4,shard:a100:8", "gpu:a100:1(IDX:3),shard:a100:3(1/2,2/2,0/2,-/2)", (), {0, 1, 3}),
        ("gpu:a100:4,shard:a100:8", "gpu:a100:1(IDX:0),shard:a100:2(IDX:1-2)", (), {0, 1, 2}),
        ("gpu:a100:2,gpu:v100:2", "gpu:a100:0(IDX:N/A),gpu:v100:0(IDX:N/A),shard:v100:1(0/2,1/2)", (), {3}),
        ("gpu:4", "gpu:(null):2(IDX:0,3)", (), {0, 3}),
        ("gpu:4", "gpu:(null):0(IDX:N/A)", (), set()),
        ("gpu:4", "gpu:0", (), set()),
        ("gpu:4", "gpu:2", (), {0, 1}),
        ("gpu:4", "gpu:2", (2,), {0, 2}),
        ("gpu:4", "gpu:2", (1, 3), {1, 3}),
        ("gpu:4,shard:8", "gpu:1,shard:(null):2(IDX:1-2)", (0,), {0, 1, 2}),
        ("gpu:4,shard:8", "gpu:0,shard:(null):0(IDX:N/A)", (), set()),
        ("gpu:4,shard:8", "gpu:1,shard:1", (0,), {0, 1}),
        ("gpu:4,mps:400", "gpu:0,mps:(null):50(0/100,50/100,0/100,0/100)", (), {1}),
        ("gpu:2", "gpu:9", (7,), {0, 1}),
    ],
)
def test_a_device_that_somebody_has_or_shares_is_taken(
    configured: str, used: str, held: tuple[int, ...], expected: set[int]
) -> None:
    assert taken(used, gres.gpus_in(configured), held) == expected


def test_a_snapshot_asks_jobs_where_a_node_tells_only_a_number() -> None:
    job = to_job(
        JobRecord(
            id=1, submit=1, state="RUNNING", user="eva", nodes="n1", num_nodes=1, per_node="gres/gpu:1",
            gres_detail=["gpu:1(IDX:2)"],
        )
    )  # fmt: skip
    nodes = [NodeRecord("n1", "MIXED", 8, 1, 1000, 0, gres="gpu:4,shard:8", gres_used="gpu:1,shard:0")]
    cluster = to_snapshot(Machine(nodes, [], []), [job], PLAIN_WORDS).cluster
    assert np.flatnonzero(~cluster.gpu_free[0]).tolist() == [2]


@pytest.mark.parametrize(
    ("detail", "parts"),
    [
        ("shard:1(0/2,1/2,0/2,0/2)", (1,)),
        ("shard:4(0/2,0/2,2/2,2/2)", (2, 3)),
        ("shard:1(IDX:1)", (1,)),
        ("gpu:g2:1(IDX:2)", ()),
        ("mps:50(0/100,50/100)", (1,)),
        ("shard:1", ()),
        ("", ()),
    ],
)
def test_of_what_devices_a_running_job_has_a_part(detail: str, parts: tuple[int, ...]) -> None:
    job = to_job(
        JobRecord(
            id=1, submit=1, state="RUNNING", user="eva", nodes="n1", num_nodes=1, per_node="gres/shard:1",
            gres_detail=[detail],
        )
    )  # fmt: skip
    assert job.parts == ((parts,) if parts else ())
    assert job.holds == (job.parts or job.gpus)


def test_a_shared_gpu_is_free_when_the_last_of_those_who_have_a_part_has_ended() -> None:
    def sharer(number: int, limit_min: int | None) -> JobRecord:
        end = None if limit_min is None else 60 * limit_min
        return JobRecord(
            id=number, submit=0, state="RUNNING", user="eva", nodes="n1", num_nodes=1, per_node="gres/shard:1", start=0,
            end=end, time_limit_min=limit_min, gres_detail=["shard:1(0/2,1/2)"],
        )  # fmt: skip

    node = NodeRecord("n1", "MIXED", 8, 0, 1000, 0, gres="gpu:g0:1,gpu:g1:1", gres_used="shard:g1:2(2/2)")
    for limits, expected in (((10, 30), 1800.0), ((30, 10), 1800.0), ((30, None), math.inf), ((None, 30), math.inf)):
        jobs = [to_job(sharer(number, limit)) for number, limit in enumerate(limits, 1)]
        snapshot = to_snapshot(Machine([node], [], [], taken=1.0), jobs, PLAIN_WORDS)
        planner = Planner.of(snapshot, Knowledge(neutral_scores(snapshot.cluster)), compose())
        assert planner.horizon.times()[0].tolist() == [0.0, expected]
