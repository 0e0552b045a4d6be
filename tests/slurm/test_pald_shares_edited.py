"""A job that waits with a part of a GPU, and is edited, on real Slurms: it comes out as the same job without pald."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pal_slurm.slurm.edits.insist import NOT_NOW
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, plain
from tests.slurm.test_pald_shares import SETTINGS, SHARES

NODES = ("n1", "n2", "n3")


class Row(NamedTuple):
    """What is said to scontrol; OTHER: a node that is not the pin's, SAME: that one."""

    words: Sequence[tuple[str, ...]]
    options: tuple[str, ...] = ("--gres=gpu:1",)
    elsewhere: bool = False  # it has to start on OTHER
    after: tuple[str, ...] = ()  # before it can start


UPDATE = ("update", "JobId=JOB")
ROWS = {
    "other nodes": Row([(*UPDATE, "ReqNodeList=OTHER")], elsewhere=True),
    "other nodes, of a GPU in total": Row([(*UPDATE, "ReqNodeList=OTHER")], elsewhere=True, options=("--gpus=1",)),
    "other nodes, of a GPU per task": Row(
        [(*UPDATE, "ReqNodeList=OTHER")], elsewhere=True, options=("-n1", "--gpus-per-task=1")
    ),
    "no nodes": Row([(*UPDATE, "ReqNodeList=")]),
    "two GPUs": Row([(*UPDATE, "TresPerNode=gres/gpu:2")]),
    "two nodes": Row([(*UPDATE, "NumNodes=2")]),
    "a time limit": Row([(*UPDATE, "TimeLimit=7")]),
    "nodes that it would rather not have": Row([(*UPDATE, "ExcNodeList=OTHER")]),
    "not the node that it has": Row([(*UPDATE, "ExcNodeList=SAME")]),
    "a feature of others": Row([(*UPDATE, "Features=only-OTHER")], elsewhere=True),
    "another partition": Row([(*UPDATE, "Partition=other")]),
    "no pal:share": Row([(*UPDATE, "Comment=app:sweep")]),
    "held, and other nodes": Row(
        [("hold", "JOB"), (*UPDATE, "ReqNodeList=OTHER")], elsewhere=True, after=("release", "JOB")
    ),
    "behind another job": Row([(*UPDATE, "Dependency=afterany:HOLDER")]),
    "requeued while it waits": Row([("requeue", "JOB")]),
}
KEYS = ["ReqNodeList", "ExcNodeList", "TresPerNode", "TresPerJob", "TresPerTask", "NumNodes", "TimeLimit", "Features"]
KEYS += ["Partition", "Comment", "Dependency"]
WRAP = 'echo "got $SLURM_JOB_NUM_NODES $(echo $CUDA_VISIBLE_DEVICES | tr , "\\n" | grep -c .) $SLURM_JOB_NODELIST"'


@pytest.fixture(scope="module")
def own(release: str) -> Iterator[Minicluster]:
    name = f"t{os.getpid()}-edited-{release}"
    cluster = Minicluster.up(name, release, "--nodes", str(len(NODES)), "--gpus", "6", "--shards", "2")
    yield cluster
    cluster.down()


def submitted(cluster: Minicluster, home: Path) -> dict[str, int]:
    """Jobs that Slurm can't start for want of a licence, which is nothing to pald."""
    ask = ("-L", "word", "--mem=100", "-t", "20", SHARES)
    return {
        name: cluster.submit(*row.options, *ask, "-o", str(home / f"{name}.out"), wrap=WRAP)
        for name, row in ROWS.items()
    }


def edit(cluster: Minicluster, jobs: Mapping[str, int], holder: int) -> tuple[dict[str, list[str]], dict[str, str]]:
    """What Slurm said to each edit, and the node that was named."""
    said, named = {}, {}
    for name, job in jobs.items():
        pinned = cluster.fields(job)["ReqNodeList"]
        other = next(node for node in NODES if node != pinned)
        there = {"JOB": str(job), "OTHER": other, "SAME": pinned if pinned in NODES else "n3", "HOLDER": str(holder)}
        said[name] = [told(cluster, words, there) for words in ROWS[name].words]
        named[name] = other
    return said, named


def told(cluster: Minicluster, words: Sequence[str], there: Mapping[str, str]) -> str:
    line = [re.sub("JOB|OTHER|SAME|HOLDER", lambda m: there[m[0]], word) for word in words]
    said = [NOT_NOW]

    def is_taken() -> bool:
        said[0] = cluster.run("scontrol", *line).stderr.strip()
        return NOT_NOW not in said[0]  # so 26.05 says now and then of a partition, where there is no slurmdbd

    wait_for(is_taken, f"slurmctld takes {' '.join(line)}")
    return re.sub(r"\d+", "N", said[0])


def stands(cluster: Minicluster, job: int, named: str) -> dict[str, str]:
    found = {key: re.sub(r"afterany:\d+", "afterany", text) for key, text in cluster.fields(job).items()}
    return {
        key: re.sub(r"n[123]\b", lambda m: "OTHER" if m[0] == named else "SAME", found.get(key, "")) for key in KEYS
    }


def got(home: Path, name: str) -> Sequence[str]:
    """Nodes, GPUs that its script saw, node list."""
    found: Sequence[Sequence[str]] = re.findall(r"(?m)^got (\d+) (\d+) (\S+)$", (home / f"{name}.out").read_text())
    return found[-1]


def differences(
    cluster: Minicluster, jobs: Mapping[str, int], named: Mapping[str, str], expected: Mapping[str, dict[str, str]]
) -> dict[str, dict[str, tuple[str, str]]]:
    wrong = {}
    for name, job in jobs.items():
        found, wanted = stands(cluster, job, named[name]), expected[name]
        if found != wanted:
            wrong[name] = {key: (found[key], wanted[key]) for key in KEYS if found[key] != wanted[key]}
    return wrong


def let_go(cluster: Minicluster, jobs: Mapping[str, int], holder: int) -> None:
    """The licences are there, and nobody holds anybody: all run to their end."""
    cluster.client("scancel", str(holder))
    for name, job in jobs.items():
        if ROWS[name].after:
            told(cluster, ROWS[name].after, {"JOB": str(job)})
    for name, job in jobs.items():
        wait_for(lambda job=job: cluster.state(job) in ("COMPLETED", ""), f"{name} ends", within=180)  # type: ignore[misc]


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", slow=("24.11",))
def test_an_edit_of_a_waiting_part_comes_out_as_on_the_same_job_without_pald(own: Minicluster, tmp_path: Path) -> None:
    own.reset()
    own.reconfigure(slurm_conf=(own.etc / "slurm.conf").read_text() + "Licenses=word:40\n")
    lua_settings(own, shards="pald")
    own.client("scontrol", "create", "PartitionName=other", f"Nodes={','.join(NODES)}")
    for node in NODES:
        features = f"only-{node}"
        own.client(
            "scontrol", "update", f"NodeName={node}", f"AvailableFeatures={features}", f"ActiveFeatures={features}"
        )
    without, with_pald = tmp_path / "without", tmp_path / "with"
    without.mkdir()
    with_pald.mkdir()

    holder = own.submit("-L", "word:40", wrap="sleep 900")
    own.wait_state(holder, "RUNNING")
    with plain(own):
        jobs = submitted(own, without)
    said, named = edit(own, jobs, holder)
    expected = {name: stands(own, job, named[name]) for name, job in jobs.items()}
    let_go(own, jobs, holder)

    holder = own.submit("-L", "word:40", wrap="sleep 900")
    own.wait_state(holder, "RUNNING")
    with Pald(own, tmp_path, SETTINGS) as pald:
        assert pald.once() == 0
        with own.leases():
            jobs = submitted(own, with_pald)
        wait_for(  # where submitting took long the first lease is renewed first
            lambda: pald.once() == 0 and all("gres/shard:g" in own.fields(job)["TresPerNode"] for job in jobs.values()),
            "each has its part of a GPU",
        )
        with_said, named = edit(own, jobs, holder)
        assert with_said == said
        assert pald.once() == 0  # without licences it is not for us to start any of them
        assert differences(own, jobs, named, expected) == {}
        pald.start()
        let_go(own, jobs, holder)
    for name, row in ROWS.items():
        mine, alone = got(with_pald, name), got(without, name)
        assert mine[:2] == alone[:2], name
        if row.elsewhere:
            assert mine[2] == named[name], name
