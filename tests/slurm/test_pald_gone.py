"""pald dead, paused, or without its database: every job starts as without it, and nothing is edited unrecorded (P1)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings, mark_of, pin_by_hand


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_pald_gone_for_good_the_dead_mans_timer_starts_every_job(minicluster: Minicluster, tmp_path: Path) -> None:
    """50 jobs wait under leases, 3 are pinned where they can't start, and one that was pinned lost its node."""
    lua_settings(minicluster, lease="600")  # none of these ends by itself
    with Pald(minicluster, tmp_path) as pald:
        ran = run_on_n8(pald)
        pald.kill()
        waiting = [minicluster.submit("--gres=gpu:1", wrap="sleep 0.1") for _ in range(50)]
        pinned = [minicluster.submit("--gres=gpu:1", wrap="sleep 0.1") for _ in range(3)]
        assert all(mark_of(minicluster, job) for job in (waiting[0], waiting[-1], *pinned))
        lose(minicluster, "n8")
        minicluster.wait_state(ran, "PENDING")
        assert minicluster.fields(ran)["ReqNodeList"] == "n8"  # Slurm keeps the pin of a requeued job
        pin_by_hand(minicluster, pinned, "n8", (0,))
        for path in tmp_path.glob("pal.sqlite*"):
            path.unlink()
        assert "nothing to do" in pald.palctl("undo", "--all", "--if-dead", "60")  # its sign of life is still fresh
        assert "54 of 54 jobs are as they were" in pald.palctl("undo", "--all", "--if-dead", "0")
        wait_for(lambda: done(minicluster) >= {*waiting, *pinned}, "all jobs done", 60)
        assert minicluster.fields(ran)["ReqNodeList"] == "(null)"
        start_requeued(minicluster, ran)
        minicluster.wait_state(ran, "RUNNING")
        assert "n8" not in minicluster.gpu_indices(ran)


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_pald_gone_for_good_every_job_starts_by_itself(minicluster: Minicluster, tmp_path: Path) -> None:
    """The same without a timer: leases run out, pinned jobs start when their GPUs are free, the node comes back."""
    lua_settings(minicluster, lease="6")
    with Pald(minicluster, tmp_path) as pald:
        ran = run_on_n8(pald)
        pald.kill()
        waiting = [minicluster.submit("--gres=gpu:1", wrap="sleep 0.1") for _ in range(50)]
        pinned = [minicluster.submit("--gres=gpu:1", wrap="sleep 0.1") for _ in range(3)]
        pin_by_hand(minicluster, pinned, "n8", (0,))
        pald.alive.unlink()
        wait_for(lambda: done(minicluster) >= set(waiting), "all leased jobs done", 60)
        minicluster.client("scontrol", "requeue", str(ran))
        minicluster.wait_state(ran, "PENDING")
        wait_for(lambda: done(minicluster) >= set(pinned), "all pinned jobs done", 60)
        start_requeued(minicluster, ran)
        minicluster.wait_state(ran, "RUNNING")
        assert set(minicluster.gpu_indices(ran)) == {"n8"}


def start_requeued(cluster: Minicluster, job: int) -> None:
    """Slurm lets a requeued job wait for two minutes, with or without us; its node needs one second of them."""
    asked = time.time()
    wait_for(lambda: time.time() > asked + 2, "two seconds", 5)
    cluster.client("scontrol", "update", f"jobid={job}", "StartTime=now")


def run_on_n8(pald: Pald) -> int:
    """A job that pald pinned, and saw start."""
    assert pald.once() == 0
    pald.scores({"n8:0": 0.5})
    pald.start()
    job = pald.cluster.submit("--gres=gpu:1", "--requeue", wrap="sleep 600")
    pald.cluster.wait_state(job, "RUNNING")
    assert set(pald.cluster.gpu_indices(job)) == {"n8"}
    wait_for(lambda: all(i.closed for i in pald.intents(job)), "pald has seen it run")
    return job


def lose(cluster: Minicluster, node: str) -> None:
    """The node dies under its jobs and stays away; `reset` starts its slurmd again."""
    cluster.drain(node)
    cluster.daemon("kill", node)
    cluster.client("scontrol", "update", f"nodename={node}", "state=down", "reason=test")


def done(cluster: Minicluster) -> set[int]:
    return {int(word) for word in cluster.client("squeue", "-h", "-t", "CD", "-o", "%A").split()}


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_a_pinned_job_that_lost_its_node_is_placed_anew(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        job = run_on_n8(pald)
        lose(minicluster, "n8")
        minicluster.wait_state(job, "PENDING")
        minicluster.wait_state(job, "RUNNING", within=90)
        assert set(minicluster.gpu_indices(job)) != {"n8"}
        assert [i.edit.kind for i in pald.intents(job)][:3] == [EditKind.PIN, EditKind.UNPIN, EditKind.PIN]


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_with_the_database_deleted_pald_knows_its_own_by_their_marks(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path, {"cycle.interval_s": 2}) as pald:
        pald.start()
        minicluster.drain("n8")
        blocked = minicluster.submit("-N8", "--gpus-per-node=1")
        job = minicluster.submit("--gres=gpu:1", wrap="sleep 1")
        minicluster.wait_state(job, "COMPLETED")
        assert mark_of(minicluster, blocked)
        pald.kill()
        lost = minicluster.submit("--gres=gpu:2")
        request = minicluster.fields(lost)["TresPerNode"]
        pin_by_hand(minicluster, [lost], "n8", (0, 1))
        for path in tmp_path.glob("pal.sqlite*"):
            path.unlink()
        pald.start()
        minicluster.wait_state(lost, "RUNNING", within=90)
        assert "n8" not in minicluster.gpu_indices(lost)
        first = pald.intents(lost)[0]
        assert first.edit.kind is EditKind.UNPIN and first.edit.original
        assert request.endswith(first.edit.original.per_node.removeprefix("gres"))
        assert minicluster.state(blocked) == "PENDING"
        # Removed while pald runs: it says so and ends, so that it is started anew.
        pald.mark()
        (tmp_path / "pal.sqlite").unlink()
        pald.wait_said("was removed or replaced while in use.*started anew")
        assert pald.wait_end() == 74
        pald.start()
        minicluster.resume("n8")
        minicluster.wait_state(blocked, "RUNNING")
        assert pald.intents(blocked, EditKind.PIN)


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_with_the_database_deleted_a_users_own_node_on_a_job_that_was_let_go_stays(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    """Not on 22.05, whose pins name nodes only."""
    lua_settings(minicluster, lease="600")
    minicluster.drain("n8")
    journal = Journal(minicluster)
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        pald.kill()
        job = minicluster.submit("--gres=gpu:2")
        assert mark_of(minicluster, job)
        minicluster.client("scontrol", "update", f"jobid={job}", "ReqNodeList=n8")
        pald.palctl("undo", str(job))
        for path in tmp_path.glob("pal.sqlite*"):
            path.unlink()
        pald.start()
        pald.wait_cycle()
        assert pald.intents(job) == [] and journal.node_lists(job) == ["n8"]
        minicluster.resume("n8")
        minicluster.wait_state(job, "RUNNING", within=60)
        assert set(minicluster.gpu_indices(job)) == {"n8"}
