"""Movers of one user at the expense of others, on a real Slurm: who asks for more on his way, who never answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Ending
from tests.slurm.history import jobs_ran
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_moves import MOVES, moves

Make = Callable[..., Minicluster]
DEAF = "trap '' TERM; while true; do sleep 1; done"
ALL_OF_IT = ("TresPerNode=gres/gpu:4", "NumNodes=4-4", "TimeLimit=600", "StartTime=now")
FAIR = MOVES | {"lease.let_through": True}


def scontrol(cluster: Minicluster, *words: str) -> None:
    cluster.client("scontrol", *words, user="alice")


def asks_for_more(cluster: Minicluster, job: int) -> None:
    scontrol(cluster, "update", f"jobid={job}", *ALL_OF_IT)


def holds(cluster: Minicluster, job: int) -> None:
    scontrol(cluster, "hold", str(job))
    asks_for_more(cluster, job)


@pytest.mark.slurm("26.05", slow=("24.11",))
@pytest.mark.parametrize("does", [holds, asks_for_more])
def test_a_job_that_is_made_larger_while_it_is_moved_starts_in_its_turn(
    make_minicluster: Make, tmp_path: Path, does: Callable[[Minicluster, int], None]
) -> None:
    """Our nice is for what it had. Another user's job of the whole cluster came before."""
    cluster = make_minicluster("--nodes", "4", "--users", "alice,bob", "--set", "KillWait=12")
    with Pald(cluster, tmp_path, FAIR) as pald, cluster.leases():
        assert pald.once() == 0
        pald.scores({f"n4:{slot}": 1.0 for slot in range(4)}, others=1.6)
        fills = [cluster.submit("--gres=gpu:4", "-t", "60", "-w", f"n{n}", user="alice") for n in (2, 3, 4)]
        fills.append(cluster.submit("--gres=gpu:2", "-t", "60", "-w", "n1", user="alice"))
        for job in fills:
            cluster.wait_state(job, "RUNNING")
        pald.start()
        # By its limit it will have ended when bob's job can start: else what is kept for that is not for movers.
        mover = cluster.submit("--comment=app:resnet pal:move", "--gres=gpu:2", "-t", "30", wrap=DEAF, user="alice")
        cluster.wait_state(mover, "RUNNING")
        bobs = cluster.submit("-N4", "--gres=gpu:4", "-t", "10", user="bob")
        wait_for(lambda: cluster.state(bobs) == "PENDING", "it waits")
        pald.wait_cycle()
        cluster.client("scancel", str(fills[2]), user="alice")  # better GPUs come free
        wait_for(lambda: cluster.state(mover) == "COMPLETING", "it is moved", 60)
        assert int(cluster.fields(mover)["Nice"]) < 0
        does(cluster, mover)
        pald.wait_cycle()
        cluster.wait_state(mover, "PENDING", within=60)
        pald.wait_cycle()
        assert int(cluster.fields(mover)["Nice"]) == 0
        if does is holds:
            assert cluster.fields(mover)["Reason"] == "JobHeldUser"
            scontrol(cluster, "release", str(mover))
        priority = {job: int(cluster.fields(job)["Priority"]) for job in (mover, bobs)}
        assert priority[mover] < priority[bobs]
        if does is holds:  # else it waits for Slurm alone, and may pass who is leased
            cluster.client("scancel", *map(str, (*fills[:2], fills[3])), user="alice")
            wait_for(lambda: "RUNNING" in {cluster.state(bobs), cluster.state(mover)}, "one of them starts")
            assert (cluster.state(bobs), cluster.state(mover)) == ("RUNNING", "PENDING")
        assert pald.intents(mover, EditKind.RENICE)


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_nobody_waits_for_a_mover_that_never_answers_and_its_user_is_not_asked_again(
    make_minicluster: Make, tmp_path: Path
) -> None:
    """It has ten minutes to save. Another user's job that fits only where it would go starts at once."""
    cluster = make_minicluster("--nodes", "2", "--users", "alice,bob")
    with Pald(cluster, tmp_path, FAIR | {"moves.margin": 1}) as pald, cluster.leases():
        assert pald.once() == 0
        pald.scores({f"n2:{slot}": 1.0 for slot in range(4)}, others=1.6)
        jobs_ran(pald, 3500, user="alice", limit_s=3600)
        fills = [
            cluster.submit("--gres=gpu:4", "-t", "60", "-w", "n2", user="alice"),
            cluster.submit("--gres=gpu:2", "-t", "60", "-w", "n1", user="alice"),
        ]
        for job in fills:
            cluster.wait_state(job, "RUNNING")
        pald.start()

        def mover(words: str) -> int:
            job = cluster.submit(f"--comment={words}", "--gres=gpu:1", "-t", "60", wrap=DEAF, user="alice")
            cluster.wait_state(job, "RUNNING")
            return job

        first = mover("pal:move=USR1@600")
        cluster.client("scancel", str(fills[0]), user="alice")
        wait_for(lambda: bool(pald.intents(first, EditKind.WARN)), "it is asked to save", 60)
        pald.wait_cycle()
        began = time.monotonic()
        bobs = cluster.submit("--gres=gpu:4", "-t", "10", user="bob")
        cluster.wait_state(bobs, "RUNNING")
        print(f"{cluster.release}: it waited {time.monotonic() - began:.1f} s")
        assert time.monotonic() - began < 15 and set(cluster.gpu_indices(bobs)) == {"n2"}
        cluster.client("scancel", str(first))
        second = mover("pal:move=USR1@5")
        cluster.client("scancel", str(bobs))
        wait_for(lambda: any(m.ending is Ending.STAYED for m in moves(pald, second)), "it did not answer", 90)
        bobs = cluster.submit("--gres=gpu:4", "-t", "10", user="bob")
        cluster.wait_state(bobs, "RUNNING")
        third = mover("app:bert pal:move=USR1@5")
        cluster.client("scancel", str(bobs), str(second))
        for _ in range(6):
            pald.wait_cycle()
        assert moves(pald, third) == [] and cluster.state(third) == "RUNNING"
        assert "did not answer" in pald.palctl("moves", "--what-if")
