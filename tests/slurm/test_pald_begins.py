"""Begin times that users choose, at submission and later: nobody starts such a job sooner, and none is forgotten."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, mark_of, plain
from tests.slurm.test_pald_turns import started

SHORT = ("-t", "5")


def begin_of(cluster: Minicluster, job: int) -> float:
    return time.mktime(time.strptime(cluster.fields(job)["EligibleTime"], "%Y-%m-%dT%H:%M:%S"))


@pytest.mark.slurm("26.05", slow=("24.11", "22.05"))
def test_a_begin_time_that_is_not_ours_is_the_users(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        with plain(minicluster):
            blocker = minicluster.submit("-N8", "--gpus-per-node=4", "-t", "60")
        minicluster.wait_state(blocker, "RUNNING")
        soon, late, control = (minicluster.submit("--gres=gpu:1", *SHORT) for _ in range(3))
        # At submission: one that the lease covers, one just beyond it, one far off.
        covered, beyond, far = (
            minicluster.submit("--gres=gpu:1", *SHORT, f"--begin=now+{s}") for s in ("8seconds", "25seconds", "1hour")
        )
        asked = {covered: time.time() + 6, beyond: begin_of(minicluster, beyond), far: begin_of(minicluster, far)}
        assert all(mark_of(minicluster, job) for job in (covered, beyond, far))
        journal = Journal(minicluster)
        minicluster.client("scontrol", "update", f"jobid={soon}", "StartTime=now+30")
        minicluster.client("scontrol", "update", f"jobid={late}", "StartTime=now+400")
        asked |= {job: begin_of(minicluster, job) for job in (soon, late)}
        minicluster.client("scancel", str(blocker))
        minicluster.wait_state(control, "RUNNING")
        for job in (covered, soon, beyond):
            minicluster.wait_state(job, "RUNNING", within=60)
            assert started(minicluster, job) >= asked[job]
        for job in (covered, beyond):  # like any other job, once their time has come
            assert [i.edit.kind for i in pald.intents(job) if i.edit.kind is not EditKind.RENEW] == [EditKind.PIN]
        pald.palctl("pause")
        pald.wait_said("paused")
        pald.wait_cycle()
        pald.palctl("undo", "--all")
        for job in (late, far):
            assert minicluster.state(job) == "PENDING" and begin_of(minicluster, job) == asked[job]
            assert pald.intents(job) == []
        mine = {int(job) for job in (late, far)}
        assert far not in journal.edited() and journal.edited() & mine <= {late}  # by its user


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_later_begin_time_on_a_job_that_was_pinned_already_takes_the_pin_away(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start(env={"PAL_CRASH_AT": "after-intent:1:STOP"})
        job = minicluster.submit("-N8", "--gpus-per-node=4", *SHORT)
        wait_for(lambda: bool(pald.intents(job, EditKind.PIN)), "the intent is on disk")
        with plain(minicluster):  # it takes one of its GPUs, so that the pin has to wait
            thief = minicluster.submit("--gres=gpu:1", "-t", "60")
        minicluster.wait_state(thief, "RUNNING")
        pald.send(signal.SIGCONT)
        wait_for(lambda: minicluster.fields(job)["ReqNodeList"] != "(null)", "it is pinned")
        minicluster.client("scontrol", "update", f"jobid={job}", "StartTime=now+300")
        begin = begin_of(minicluster, job)
        wait_for(lambda: minicluster.fields(job)["ReqNodeList"] == "(null)", "the pin is taken back")
        minicluster.client("scancel", str(thief))
        pald.wait_cycle()
        pald.wait_cycle()
        assert minicluster.state(job) == "PENDING" and begin_of(minicluster, job) == begin
