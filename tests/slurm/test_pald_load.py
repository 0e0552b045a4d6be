"""slurmctld is not flooded, and hostile texts cost their own job its hint and nothing else (P8, P9)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from pal_slurm.daemon.leases.keeping import LeaseRules
from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, plain
from tests.slurm.test_hostile_text import COMMENTS, submit

WAITING = 200
WINDOW_S = 8.0


@pytest.mark.every(2)
@pytest.mark.slurm("26.05")
def test_200_waiting_jobs_cost_a_few_edits_a_second(minicluster: Minicluster, tmp_path: Path) -> None:
    """The sum of 1/length over the ranks, as the unit test of 10,000 reckons it, seen in the ledger."""
    with plain(minicluster):
        blocker = minicluster.submit("-N8", "--gpus-per-node=4", "-t", "60")
    minicluster.wait_state(blocker, "RUNNING")
    lua_settings(minicluster, lease="14")
    with Pald(minicluster, tmp_path, {"budget.edits_per_s": 20, "budget.keep_share": 0}) as pald:
        pald.start()
        minicluster.submit_many(WAITING, "--gres=gpu:1", wrap="sleep 1")
        begun = time.time()

        def renewed() -> set[int]:
            return {i.edit.job for i in pald.ledger() if i.edit.kind is EditKind.RENEW}

        wait_for(lambda: len(renewed()) >= WAITING, "every lease of job_submit.lua was renewed once", 90)
        wave = time.time()
        wait_for(lambda: time.time() > wave + WINDOW_S, "a while", WINDOW_S + 5)
        written = [i.written_at for i in pald.ledger()]
        assert len([at for at in written if at > begun]) <= 64 + 20 * (time.time() - begun)  # the write budget
        rules, slack = LeaseRules(), 5.0
        each_second = sum(1 / (rules.length(rank, rank) - slack) for rank in range(WAITING))
        assert each_second < 2
        assert len([at for at in written if at > wave]) <= 5 * each_second * WINDOW_S
        assert len(minicluster.client("squeue", "-h", "-t", "PD", "-o", "%A").split()) == WAITING
        assert {i.edit.kind for i in pald.ledger()} == {EditKind.RENEW}


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_a_long_queue_keeps_its_leases_by_its_share_of_the_time(minicluster: Minicluster, tmp_path: Path) -> None:
    """An edit a second beside it; leases of a minute make 200 jobs as many renewals as 2,000 have."""
    with plain(minicluster):
        blocker = minicluster.submit("-N8", "--gpus-per-node=4", "-t", "60")
    minicluster.wait_state(blocker, "RUNNING")
    lua_settings(minicluster, lease="60")
    with Pald(minicluster, tmp_path, {"budget.edits_per_s": 1, "lease.max_s": 60}) as pald:
        pald.start()
        minicluster.submit_many(WAITING, "--gres=gpu:1", wrap="sleep 1")
        pald.wait_cycle()
        pald.mark()
        begun = time.time()

        def renewals() -> int:
            return sum(i.edit.kind is EditKind.RENEW and i.written_at > begun for i in pald.ledger())

        wait_for(lambda: renewals() >= 2 * WAITING, "each lease was renewed twice", 240)
        assert renewals() > 64 + (time.time() - begun)
        looks = re.findall(r"(\d+) pending, (\d+) leased", pald.since_mark())
        assert len(looks) > 20 and set(looks) == {(str(WAITING), str(WAITING))}
        assert {i.edit.kind for i in pald.ledger()} == {EditKind.RENEW}


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_hostile_comments_cost_their_own_job_the_hint_and_nobody_anything_else(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        victim = minicluster.submit("--gres=gpu:2", "--comment=app:resnet")
        jobs = {
            name: submit(minicluster, b"--comment=" + text, "--gres=gpu:1", later=False)
            for name, (text, _) in COMMENTS.items()
        }
        for job in (victim, *jobs.values()):
            minicluster.wait_state(job, "RUNNING", within=60)
        assert len(pald.intents(victim, EditKind.PIN)) == 1
        for name, job in jobs.items():
            assert len(pald.intents(job, EditKind.PIN)) == 1, name
            why = pald.palctl("why", str(job))
            drops = COMMENTS[name][1] or not COMMENTS[name][0]
            assert ("names no application" in why or "hint" in why) is drops, (name, why)
            assert all(line.isprintable() for line in why.splitlines()), name
        assert all(line.isprintable() for line in pald.said().splitlines())
        pald.wait_cycle()
        assert "hints dropped" in pald.said()
        assert all(line.isprintable() for line in pald.palctl("jobs").splitlines())
