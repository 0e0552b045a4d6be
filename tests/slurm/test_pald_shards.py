"""GPUs of which jobs have parts (shards), on a real Slurm: pald keeps off them, and who asks for parts gets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.backends import backend_of
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, pin_of

NODES = 2
SHARED = {"n1": 1, "n2": 3}  # a device of each node of which somebody has one of its two shards


class Line(NamedTuple):
    options: tuple[str, ...]
    gpus: int = 0
    parts: int = 0  # devices of which it gets shards
    nodes: int = 1


LINES = {
    "two shards": Line(("--gres=shard:2",), parts=1),
    "a shard of any type": Line(("--gres=shard:1",), parts=1),
    "a shard by its slot": Line(("--gres=shard:g2:1",), parts=1),
    "a shard on each node": Line(("-N2", "--gres=shard:1"), parts=2, nodes=2),
    "a shard, and an application": Line(("--gres=shard:1", "--comment=app:resnet pal:move"), parts=1),
    "a GPU": Line(("--gres=gpu:1",), gpus=1),
    "a GPU by its slot": Line(("--gres=gpu:g0:1",), gpus=1),
    "GPUs of the job": Line(("--gpus=2", "-N1"), gpus=2),
    "a GPU per task": Line(("-n2", "-N1", "--gpus-per-task=1"), gpus=2),
    "two on each": Line(("-N2", "--gres=gpu:2"), gpus=4, nodes=2),
    "three on each": Line(("-N2", "--gres=gpu:3"), gpus=6, nodes=2),
}
NEVER = ("--gres=gpu:1,shard:1", "--gres=shard:g0:1,shard:g1:1", "--gres=shard:g1:1,shard:g2:1,shard:g3:1")


def with_shards(make: Callable[..., Minicluster]) -> Minicluster:
    """Two nodes with four GPUs of two shards each."""
    return make("--nodes", str(NODES), "--gpus", "4", "--shards", "2")


def occupied(cluster: Minicluster) -> list[int]:
    """Somebody has a shard of one device of each node."""
    jobs = [
        cluster.submit("-w", node, f"--gres=shard:g{slot}:1", "--mem=100", "-t", "30") for node, slot in SHARED.items()
    ]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    return jobs


def got(cluster: Minicluster) -> Mapping[str, Line]:
    """What each line gets, one at a time, in the cluster as it is."""
    found = {}
    for name, line in LINES.items():
        job = cluster.submit(*line.options, "--mem=100", "-t", "10")
        cluster.wait_state(job, "RUNNING", within=60)
        with backend_of(cluster, "cli") as slurm:
            running = {job.id: job for job in slurm.snapshot().running}[job]
        found[name] = Line(line.options, sum(map(len, running.gpus)), sum(map(len, running.parts)), len(running.nodes))
        whole = set(zip(running.nodes, running.gpus, strict=True))
        assert not any(SHARED[node] in gpus for node, gpus in whole), f"{name}: a whole GPU of which another has a part"
        cluster.client("scancel", str(job))
        wait_for(lambda job=job: cluster.state(job) in ("", "CANCELLED"), "it is gone")  # type: ignore[misc]
    return found


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", slow=("24.11", "22.05"))
def test_with_shards_in_use_every_line_gets_what_it_asks_for_with_pald_and_without(
    release: str, make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = with_shards(make_minicluster)
    occupied(cluster)
    without = got(cluster)
    assert without == LINES, "Slurm alone"
    with Pald(cluster, tmp_path) as pald:
        assert pald.once() == 0
        pald.scores({f"{node}:{slot}": 0.5 for node, slot in SHARED.items()})  # the GPUs that it would rather have
        pald.start()
        assert got(cluster) == LINES, "with pald"
        pins = [intent for intent in pald.ledger() if intent.edit.kind is EditKind.PIN]
        assert {intent.outcome for intent in pins} == {Outcome.DONE}
        assert len(pins) >= 5
        by_slot = [(node, slot) for pin in map(pin_of, pins) for node in pin.nodes for slot in pin.slots or ()]
        assert bool(by_slot) == (release != "22.05")  # there pins name nodes, and Slurm the devices
        assert not set(SHARED.items()) & set(by_slot)
        for never in NEVER:
            assert cluster.run("sbatch", never, "--wrap", "true").returncode != 0, never


@pytest.mark.slurm(turns=("24.11", "26.05"))
def test_a_job_that_needs_a_shared_gpu_waits_until_the_last_of_those_who_share_it_has_ended(
    release: str, make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = with_shards(make_minicluster)
    first = occupied(cluster)
    second = cluster.submit("-w", "n1", f"--gres=shard:g{SHARED['n1']}:1", "--mem=100", "-t", "40")
    cluster.wait_state(second, "RUNNING")
    with Pald(cluster, tmp_path) as pald:
        assert pald.once() == 0
        pald.start()
        waits = cluster.submit("--gres=gpu:4", "-w", "n1", "--mem=100", "-t", "10")
        small = cluster.submit("--gres=gpu:1", "--mem=100", "-t", "5")
        cluster.wait_state(small, "RUNNING", within=60)
        pald.wait_cycle()
        assert cluster.state(waits) == "PENDING"
        cluster.client("scancel", str(small))
        cluster.client("scancel", str(first[0]))
        pald.wait_cycle()
        assert cluster.state(waits) == "PENDING"  # one of the two is still there
        cluster.client("scancel", str(second))
        cluster.wait_state(waits, "RUNNING", within=90)
