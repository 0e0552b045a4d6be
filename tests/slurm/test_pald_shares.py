"""Two jobs on one GPU, on real Slurms with pald: who shares, who waits, and that nothing else changes for anybody."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pal_slurm.model import EditKind, Job, Outcome, Pin
from tests.slurm.backends import LATER, backend_of
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, pin_of

SHARES = "--comment=app:sweep pal:share"
ONE = ("--gres=gpu:1", "--mem=100", "-t", "20")
SETTINGS = {
    "sharing.enabled": True,
    "sharing.pairs": [{"app": "sweep", "beside": "sweep", "factor": 1.25, "back": 1.25}],
    "apps": {"sweep": {"class": "A", "base": {"gpu": 1.0}}},
}


@pytest.fixture(scope="module")
def own(release: str) -> Iterator[Minicluster]:
    """A node of four GPUs, each of two parts, and pal's task prolog."""
    name = f"t{os.getpid()}-shares-{release}"
    cluster = Minicluster.up(name, release, "--nodes", "1", "--gpus", "4", "--shards", "2")
    yield cluster
    cluster.down()


@pytest.fixture
def shared(own: Minicluster) -> Minicluster:
    own.reset()
    lua_settings(own, shards="pald")
    return own


def running(cluster: Minicluster) -> Mapping[int, Job]:
    with backend_of(cluster, "cli") as slurm:
        return {job.id: job for job in slurm.snapshot().running}


def fill(cluster: Minicluster, sharers: int, *, seconds: int = 600, user: str | None = None) -> list[int]:
    """All four GPUs are taken, so many of them by jobs that may share."""
    jobs = [cluster.submit(*ONE, SHARES, wrap=f"sleep {seconds}", user=user) for _ in range(sharers)]
    jobs += [cluster.submit(*ONE, wrap="sleep 600") for _ in range(4 - sharers)]
    for job in jobs:
        cluster.wait_state(job, "RUNNING", within=60)
    return jobs


@pytest.mark.slurm(turns=("24.11", "26.05"))
def test_two_of_one_owner_have_one_gpu_and_a_third_owners_whole_gpu_waits_for_both(
    shared: Minicluster, tmp_path: Path
) -> None:
    with Pald(shared, tmp_path, SETTINGS) as pald:
        pald.start()
        first = fill(shared, 1)
        second = shared.submit(*ONE, SHARES, wrap="srun true && sleep 600")
        shared.wait_state(second, "RUNNING", within=60)
        where = running(shared)
        assert where[second].parts == where[first[0]].parts and where[second].parts
        whole = shared.submit("--gres=gpu:1", "--mem=100", "-t", "5", user="nobody")
        stranger = shared.submit(*ONE, SHARES, user="games")
        pald.wait_cycle()
        pald.wait_cycle()
        assert shared.state(whole) == shared.state(stranger) == "PENDING"
        told = pald.palctl("why", str(second))
        assert f"is put on the GPU of job {first[0]}, of the same owner" in told and "1.25 times as long" in told
        assert "it has its GPU to itself until another" in pald.palctl("why", str(first[0]))
        shared.client("scancel", str(first[0]))
        pald.wait_cycle()
        assert shared.state(whole) == "PENDING"  # one of the two is still there
        shared.client("scancel", str(second))
        shared.wait_state(whole, "RUNNING", within=90)
        assert running(shared)[whole].gpus == where[second].parts
        pins = [pin_of(intent) for intent in pald.ledger() if intent.edit.kind is EditKind.PIN]
        assert {pin.job for pin in pins if pin.shard} == {first[0], second}


@pytest.mark.slurm(turns=("24.11", "26.05"))
def test_where_users_ask_for_shards_no_stranger_comes_to_a_job_that_says_pal_share(
    shared: Minicluster, tmp_path: Path
) -> None:
    lua_settings(shared, shards="users")
    with Pald(shared, tmp_path, SETTINGS) as pald:
        pald.start()
        first = fill(shared, 4)
        assert all(not running(shared)[job].parts and running(shared)[job].gpus for job in first)
        stranger = shared.submit("--gres=shard:1", "--mem=100", "-t", "5", user="nobody")
        pald.wait_cycle()
        assert shared.state(stranger) == "PENDING"
        assert "users may ask for parts of GPUs themselves here" in pald.palctl("why", str(first[0]))


@pytest.mark.slurm(turns=("24.11", "26.05"))
def test_a_requeued_job_and_one_that_palctl_undoes_have_their_whole_gpu_back(
    shared: Minicluster, tmp_path: Path
) -> None:
    with Pald(shared, tmp_path, SETTINGS) as pald:
        assert pald.once() == 0
        shared.drain("n1")  # it has to wait
        with shared.leases():
            waits = shared.submit(LATER, "--gpus=1", "--mem=100", "-t", "20", SHARES)
        with backend_of(shared, "cli") as slurm:
            (made,) = slurm.jobs([waits]).values()
            (pinned,) = slurm.apply([Pin(waits, nodes=("n1",), slots=(1,), original=made.request, shard=True)])
            assert pinned.outcome is Outcome.DONE
            pald.palctl("undo", str(waits))
            (after,) = slurm.jobs([waits]).values()
        assert (after.request.per_node, after.request.per_job) == ("", made.request.per_job)
        assert not after.required_nodes
        shared.client("scancel", str(waits))
        shared.resume("n1")
        pald.start()
        (job,) = fill(shared, 1)[:1]
        assert running(shared)[job].shard
        shared.client("scontrol", "requeue", str(job))
        wait_for(lambda: "gres/shard" not in asked(shared, job, "TresPerNode"), "the pin is taken back", within=60)
        wait_for(lambda: any(i.outcome is Outcome.DONE for i in pald.intents(job, EditKind.UNPIN)), "pald knows it")
        wait_for(lambda: job in running(shared), "it runs again", within=200)


def asked(cluster: Minicluster, job: int, key: str) -> str:
    return cluster.fields(job).get(key, "")


class Line(NamedTuple):
    """How a user asks, and what his job's script is to see: GPUs of its own."""

    options: tuple[str, ...]
    gpus: int = 1
    step: int | None = None  # of these, in a step of one task; None: all


SCRIPT = """#!/bin/sh
echo "batch $(echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | grep -c .)"
srun -n1 sh -c 'echo "step $(echo $CUDA_VISIBLE_DEVICES | tr , "\\n" | grep -c .)"'
echo "exit $?"
echo "cpus $SLURM_CPUS_ON_NODE"
echo "tasks ${SLURM_NTASKS:-0}"
echo "nodes $SLURM_JOB_NUM_NODES"
"""
LINES = {
    "per node": Line(("--gres=gpu:1",)),
    "per node, by the other name": Line(("-N1", "--gpus-per-node=1")),
    "of the job": Line(("--gpus=1",)),
    "per task": Line(("-n1", "--gpus-per-task=1")),
    "per task, with CPUs": Line(("-n1", "-c2", "--gpus-per-task=1")),
    "CPUs": Line(("--gpus=1", "-c3")),
    "several tasks on its node": Line(("-N1", "-n2", "--gres=gpu:1")),
    "a task each": Line(("--gres=gpu:1", "--ntasks-per-node=1")),
    "two": Line(("--gres=gpu:2",), 2),
    "two of the job": Line(("--gpus=2", "-N1"), 2),
    "a GPU for each of two tasks": Line(("-n2", "-N1", "--gpus-per-task=1"), 2, 1),
    "the node": Line(("--exclusive", "--gres=gpu:1"), 4, 1),
    "memory by GPU": Line(("--gpus=1", "--mem-per-gpu=100")),
    "CPUs by GPU": Line(("--gpus=1", "--cpus-per-gpu=2")),
    "its own node": Line(("-w", "n1", "--gres=gpu:1")),
    "an array": Line(("--array=0-0", "--gres=gpu:1")),
    "an array with a limit": Line(("--array=0-0%1", "--gres=gpu:1")),
    "a slot by name": Line(("--gres=gpu:g2:1",)),
    "bound": Line(("--gpus=1", "--gpu-bind=none")),
    "nice": Line(("--gres=gpu:1", "--nice=10")),
    "hands off": Line(("--gres=gpu:1", "--comment=app:sweep pal:share pal:off")),
    "requeued at will": Line(("--gres=gpu:1", "--requeue", "--kill-on-invalid-dep=yes")),
}
REFUSED = ("--gres=shard:1", "--gres=shard:g1:1", "--gres=gpu:1,shard:1", "--gres=shard:g0:1,shard:g1:1")
WORDS = re.compile(r"(?m)^(batch|step|exit|cpus|tasks|nodes) (\d+)$")


def seen(cluster: Minicluster, home: Path) -> Mapping[str, Sequence[tuple[str, str]]]:
    """What each line's script and its step saw, one after the other."""
    home.mkdir()
    found = {}
    for name, line in LINES.items():
        out = home / f"{name}.out"
        mem = [] if "--mem-per-gpu=100" in line.options else ["--mem=100"]
        words = ("sbatch", "--parsable", "-o", str(out), *mem, "-t", "10", SHARES, *line.options)
        job = int(cluster.client(*words, stdin=SCRIPT).partition("_")[0])
        wait_for(lambda job=job: cluster.state(job) in ("COMPLETED", "FAILED", ""), f"{name} ends", within=90)  # type: ignore[misc]
        found[name] = WORDS.findall(out.read_text())
    return found


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", slow=("24.11",))
def test_scripts_and_steps_of_all_who_say_pal_share_see_what_they_see_without_pald(
    shared: Minicluster, tmp_path: Path
) -> None:
    without = seen(shared, tmp_path / "without")
    wrong = {name: got for name, got in without.items() if got[:3] != expected(LINES[name])}
    assert wrong == {}, "Slurm alone"
    with Pald(shared, tmp_path, SETTINGS) as pald:
        pald.start()
        assert seen(shared, tmp_path / "with") == without
        parts = {pin_of(i).job for i in pald.ledger() if i.edit.kind is EditKind.PIN and pin_of(i).shard}
        assert len(parts) >= 9  # not one by one: these could have shared
        for never in REFUSED:
            assert shared.run("sbatch", never, "--wrap", "true").returncode != 0, never
        for direct in (("srun", "--gres=gpu:1", "true"), ("salloc", "--gres=gpu:1", "srun", "true")):
            shared.client(*direct[:1], "--mem=100", SHARES, *direct[1:], timeout=60)


def expected(line: Line) -> list[tuple[str, str]]:
    return [("batch", str(line.gpus)), ("step", str(line.step or line.gpus)), ("exit", "0")]
