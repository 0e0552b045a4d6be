"""Leases that ran out while pald was away: taken up again where Slurm can't start the job, once nobody let it go."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Intent
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings, mark_of, plain


def unleased(cluster: Minicluster, *jobs: int) -> None:
    """Wait until Slurm itself would start these jobs, and can't."""

    def looked_at() -> bool:
        told = cluster.client("squeue", "-h", "-j", ",".join(map(str, jobs)), "-o", "%r").split()
        return set(told) <= {"Resources", "Priority"}

    wait_for(looked_at, "their leases have run out")


def blocked(cluster: Minicluster, minutes: int) -> int:
    with plain(cluster):
        blocker = cluster.submit("-N8", "--gpus-per-node=4", "-t", str(minutes))
    cluster.wait_state(blocker, "RUNNING")
    lua_settings(cluster, lease="4")
    return blocker


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_lease_that_ran_out_is_taken_up_again_and_the_job_is_placed(minicluster: Minicluster, tmp_path: Path) -> None:
    blocker = blocked(minicluster, 60)
    with Pald(minicluster, tmp_path) as pald, minicluster.leases():
        lua_settings(minicluster, lease="600")
        let_go = minicluster.submit("--gres=gpu:1", "-t", "5")
        pald.palctl("undo", str(let_go))
        lua_settings(minicluster, lease="4")
        ours = [minicluster.submit("--gres=gpu:1", "-t", "5") for _ in range(2)]
        array = minicluster.submit("--array=1-3", "--gres=gpu:1", "-t", "5")
        off = minicluster.submit("--gres=gpu:1", "-t", "5", "--comment=pal:off")
        assert all(mark_of(minicluster, job) for job in (let_go, *ours, array, off))
        unleased(minicluster, let_go, *ours, array, off)
        accrued = accrue_times(minicluster, *ours)
        journal = Journal(minicluster)
        pald.start()
        wait_for(lambda: {i.edit.job for i in leases(pald)} == {*ours, array, off}, "all but one are leased again")
        again = [i.edit.job for i in leases(pald)]
        assert sorted(again, reverse=True) == again  # the last in the order first
        assert accrue_times(minicluster, *ours) == accrued
        pald.wait_cycle()
        minicluster.client("scancel", str(blocker))
        for job in (*ours, off, let_go):
            minicluster.wait_state(job, "RUNNING", within=60)
        for job in (*ours, array):
            wait_for(partial(has, pald, job, EditKind.PIN), f"{job} is placed")
        assert pald.intents(off, EditKind.PLAIN) and not pald.intents(off, EditKind.PIN)
        assert len(leases(pald)) == 4  # each once
        assert pald.intents(let_go) == [] and let_go not in journal.edited()


def leases(pald: Pald) -> list[Intent]:
    return [i for i in pald.ledger() if i.edit.kind is EditKind.LEASE]


def has(pald: Pald, job: int, kind: EditKind) -> bool:
    return bool(pald.intents(job, kind))


def accrue_times(cluster: Minicluster, *jobs: int) -> list[str]:
    return [cluster.fields(job)["AccrueTime"] for job in jobs]


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_job_that_slurm_plans_to_start_soon_is_left_to_it(minicluster: Minicluster, tmp_path: Path) -> None:
    blocker = blocked(minicluster, 1)
    with Pald(minicluster, tmp_path) as pald, minicluster.leases():
        # Several: Slurm's backfill looks only where the main pass found a job behind one that can't start.
        jobs = [minicluster.submit("-N8", "--gpus-per-node=2", "-t", "5") for _ in range(3)]
        job = jobs[0]
        assert all(mark_of(minicluster, job) for job in jobs)
        wait_for(lambda: bool(planned(minicluster, job)), "Slurm's backfill plans it")
        pald.start()
        pald.wait_cycle()
        assert re.search("^ *It is left alone", pald.palctl("why", str(job)), re.MULTILINE)
        minicluster.client("scancel", str(blocker))
        minicluster.wait_state(job, "RUNNING", within=60)
        pald.wait_cycle()
        assert pald.intents(job) == []


def planned(cluster: Minicluster, job: int) -> str:
    return cluster.client("squeue", "-h", "-j", str(job), "-O", "SchedNodes:64").strip().replace("(null)", "")
