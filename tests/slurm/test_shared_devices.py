"""Which GPUs real slurmctlds have free where devices are shared, and where nodes name no types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pal_slurm.slurm.commands.backend import CliSlurm
from tests.slurm.minicluster import Minicluster, wait_for

SLEEP = ("-t", "5", "--mem=100", "--wrap", "sleep 600")


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", "24.11", "22.05")
@pytest.mark.parametrize(
    ("gres", "asked", "free"),
    [
        ("slots", ("gpu:g1:1", "shard:g2:1", "shard:g3:2"), [0]),
        ("typed", ("gpu:a100:1", "shard:1", "shard:2"), None),
        ("none", ("gpu:3",), [3]),
    ],
)
def test_gpus_that_are_held_or_shared_are_not_free(
    gres: str, asked: tuple[str, ...], free: list[int] | None, make_minicluster: Callable[..., Minicluster]
) -> None:
    shards = ("--shards", "2") if any("shard" in text for text in asked) else ()
    cluster = make_minicluster("--nodes", "1", "--gpus", "4", "--gres", gres, *shards)
    for text in asked:
        cluster.client("sbatch", f"--gres={text}", *SLEEP)
    running = ("squeue", "-h", "-t", "R", "-o", "%i")
    wait_for(lambda: len(cluster.client(*running).split()) == len(asked), "all run")
    found = np.flatnonzero(CliSlurm(cluster.bin).snapshot().cluster.gpu_free[0]).tolist()
    if free is not None:
        assert found == free
    else:  # a shard without type may share its device with the other shards
        assert len(found) in (1, 2)
