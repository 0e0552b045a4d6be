"""A cluster to play with: pald beside it, users that only the cluster has, and the commands of the README."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, steps
from tests.slurm.minicluster import TOOL, Minicluster, tool, wait_for
from tests.slurm.pald import mark_of
from tests.slurm.test_minicluster import HOME, assert_no_trace, name  # noqa: F401
from tests.slurm.test_minicluster import mark_of as mark_of_world

pytestmark = pytest.mark.every(2)

Make = Callable[..., Minicluster]


def palctl(cluster: Minicluster, *words: str) -> str:
    done = subprocess.run([cluster.bin / "palctl", *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"palctl {' '.join(words)}: {done.stderr or done.stdout}"
    return done.stdout


def told_scores(cluster: Minicluster) -> dict[tuple[str, str], float]:
    """(node, slot) -> score of class A, as palctl prints them."""
    return {(row["node"], f"g{row['slot']}"): row["A"] for row in json.loads(palctl(cluster, "scores", "--json"))}


def true_speeds(cluster: Minicluster) -> dict[tuple[str, str], float]:
    speeds = json.loads((cluster.dir / "speeds.json").read_text())
    return {(node, slot): of["A"] for node, slots in speeds.items() for slot, of in slots.items()}


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_pald_beside_a_cluster_places_the_jobs_of_its_users(make_minicluster: Make) -> None:
    passwd = Path("/etc/passwd").read_bytes()
    cluster = make_minicluster("--nodes", "3", "--dbd", "--pald", "--users", "alice,bob")
    assert told_scores(cluster) == pytest.approx(true_speeds(cluster), abs=1e-3)
    assert len(set(true_speeds(cluster).values())) > 1, "there is nothing to see"
    job = cluster.submit("--pal-app=pagerank", "--gres=gpu:2", user="alice")
    assert mark_of(cluster, job), "job_submit.lua knows that pald is alive"
    cluster.wait_state(job, "RUNNING")
    assert cluster.fields(job)["UserId"].startswith("alice(")
    wait_for(lambda: "as pinned" in palctl(cluster, "why", str(job)), "palctl why tells what became of the pin")
    assert cluster.client("id", "-un", user="bob").strip() == "bob"
    assert "bob" in cluster.client("sacctmgr", "-n", "show", "assoc", "account=pal", "format=user")
    with pytest.raises(KeyError):
        pwd.getpwnam("alice")
    assert Path("/etc/passwd").read_bytes() == passwd


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_pald_is_one_of_the_daemons(name: str, release: str) -> None:  # noqa: F811
    cluster = Minicluster.up(name, release, "--nodes", "2", "--pald")
    world, first = mark_of_world(cluster.dir), cluster.pid("pald")
    listed = {about["name"]: about for about in json.loads(tool("list", "--json").stdout)}
    assert listed[name]["pald"] == "pin"
    cluster.daemon("kill", "pald")
    assert "daemons stopped: pald" in tool("status", "--name", name).stdout
    cluster.daemon("start", "pald")
    assert cluster.pid("pald") != first
    log = cluster.dir / "log" / "pald.log"
    wait_for(lambda: log.read_text().count("started: ") == 2, "pald has started again")
    cluster.daemon("restart", "pald")
    wait_for(lambda: log.read_text().count("started: ") == 3, "and again")
    assert "stopped" in log.read_text(), "the second was asked to stop"
    assert "daemons stopped: none" in tool("status", "--name", name).stdout
    last = cluster.pid("pald")
    cluster.down()
    assert_no_trace(cluster.dir, world)
    wait_for(lambda: not Path(f"/proc/{last}").exists(), "pald is gone, and reaped by whom it was left to")


@pytest.mark.slurm("26.05")
def test_pald_may_only_watch_and_know_nothing(make_minicluster: Make) -> None:
    cluster = make_minicluster("--nodes", "2", "--pald", "--actuator", "shadow", "--profile", "none")
    assert told_scores(cluster) == {}
    job = cluster.submit("--pal-app=resnet", "--gres=gpu:1")
    assert not mark_of(cluster, job)
    cluster.wait_state(job, "RUNNING")


@pytest.mark.slurm("26.05", slow=("22.05",))
def test_scores_can_be_measured_by_the_nightly_profile(make_minicluster: Make) -> None:
    cluster = make_minicluster("--nodes", "2", "--pald", "--profile", "measured")
    assert told_scores(cluster) == pytest.approx(true_speeds(cluster), rel=0.05)


@pytest.mark.slurm("26.05")
def test_the_users_of_a_cluster_are_nobody_elses(make_minicluster: Make) -> None:
    """Also for who may not enter the cluster's namespaces; and each begins at home, where a job's output may go."""
    first = make_minicluster("--nodes", "1", "--users", "alice")
    second = make_minicluster("--nodes", "1", "--users", "bob")
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    done = subprocess.run(
        [*as_nobody, str(first.bin / "in-cluster"), "id", "-un", "alice"],
        capture_output=True, text=True, timeout=30, cwd="/tmp", check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "alice", done.stderr
    other = second.run("true", user="alice")
    assert other.returncode != 0 and "alice" in other.stderr
    job = int(first.client("sbatch", "--parsable", "--wrap", "id -un; pwd", user="alice"))
    wait_for(lambda: first.state(job) in ("", "COMPLETED"), "the job is done")
    home = first.dir / "home" / "alice"
    assert (home / f"slurm-{job}.out").read_text().split() == ["alice", str(home)]


@pytest.mark.slurm("22.05")
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--users", "root"], "root is a user or group of this machine already"),
        (["--users", "alice,alice"], "each name once"),
        (["--users", "a:b"], "'a:b' is no user's name"),
        (["--users", "alice,"], "'' is no user's name"),
        (["--users", "../x"], "is no user's name"),
        (["--actuator", "shadow"], "add --pald"),
        (["--pald", "--no-pal"], "--pald needs"),
        (["--pald", "--gpus", "0"], "--pald needs"),
        (["--pald", "--policy", "nonsense"], "nonsense"),
    ],
)
def test_what_can_not_be_is_named(name: str, release: str, options: list[str], sentence: str) -> None:  # noqa: F811
    done = tool("up", "--name", name, "--nodes", "1", *options)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert not (HOME / name).exists()


@pytest.mark.slurm("26.05")
def test_the_readmes_cluster_to_play_with_does_what_it_says(release: str) -> None:
    blocks = [block.text for block, _ in steps(PROJECT / "README.md", "play")]
    assert len(blocks) == 1
    with tempfile.TemporaryDirectory(prefix="pal-play-") as home:
        Path(home).chmod(0o755)
        try:
            done = subprocess.run(
                ["bash", "-euxc", blocks[0]], cwd=PROJECT, env={**os.environ, "PAL_MINICLUSTER_HOME": home},
                capture_output=True, text=True, timeout=180, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            for said in ("all idle", "Submitted batch job 1", '"app": "resnet"', "Job 1 asks for", "pin, policy pal"):
                assert said in done.stdout, done.stdout
            assert not list(Path(home).glob("*"))
        finally:
            left = {**os.environ, "PAL_MINICLUSTER_HOME": home}
            subprocess.run([TOOL, "down", "--all"], env=left, capture_output=True, timeout=60, check=False)
