"""Nobody starves, and nobody jumps the queue by not being ours (P5)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pal_slurm.config import load
from pal_slurm.daemon.build import build
from pal_slurm.daemon.clock import SystemClock
from pal_slurm.model import EditKind, Reason
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, mark_of, plain

LONG = ("-t", "60")


def started(cluster: Minicluster, job: int) -> float:
    """When it started, as slurmctld's log has it; it must have."""
    text = cluster.client("squeue", "-h", "-t", "all", "-j", str(job), "-O", "StartTime:32,State:32").split()
    assert text[1] in ("RUNNING", "COMPLETED"), text
    return time.mktime(time.strptime(text[0], "%Y-%m-%dT%H:%M:%S"))


@pytest.mark.slurm("22.05", slow=("24.11", "26.05"))
def test_a_big_job_is_not_starved_by_what_waits_behind_it(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        for node in ("n5", "n6", "n7", "n8"):
            minicluster.drain(node)
        # Of 16 GPUs that are left, 8 are busy, for three minutes as far as anybody knows.
        first = minicluster.submit("-N2", "--gpus-per-node=4", "-t", "3", wrap="sleep 10")
        minicluster.wait_state(first, "RUNNING")
        head = minicluster.submit("-N4", "--gpus-per-node=4", *LONG, wrap="sleep 3")
        cpu = minicluster.submit("-n8", *LONG)
        off = minicluster.submit("--gres=gpu:1", "--comment=pal:off", *LONG)
        ours = minicluster.submit("--gres=gpu:1", *LONG)
        short = minicluster.submit("--gres=gpu:2", "--comment=pal:off", "-t", "1", wrap="sleep 1")
        minicluster.wait_state(cpu, "RUNNING")  # its CPUs are in nobody's way
        minicluster.wait_state(short, "RUNNING", "COMPLETED")  # it ends before the head's turn
        pald.wait_cycle()
        assert {minicluster.state(job) for job in (head, off, ours)} == {"PENDING"}
        minicluster.wait_state(head, "RUNNING", "COMPLETED", within=60)
        for job in (off, ours):
            minicluster.wait_state(job, "RUNNING", within=60)
            assert started(minicluster, head) < started(minicluster, job)
        assert started(minicluster, short) < started(minicluster, head)
        assert [intent.edit.kind for intent in pald.intents(off) if intent.edit.kind is not EditKind.RENEW] == [
            EditKind.PLAIN
        ]


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_job_that_is_not_ours_keeps_its_turn(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        first = minicluster.submit("-N4", "--gpus-per-node=4", "-t", "3", wrap="sleep 9")
        minicluster.wait_state(first, "RUNNING")
        with plain(minicluster):
            theirs = minicluster.submit("-N8", "--gpus-per-node=4", "-t", "3", wrap="sleep 2")
        behind = [minicluster.submit("--gres=gpu:1", *LONG) for _ in range(4)]
        short = minicluster.submit("--gres=gpu:1", "-t", "1", wrap="sleep 1")
        assert not mark_of(minicluster, theirs) and all(mark_of(minicluster, job) for job in behind)
        minicluster.wait_state(short, "RUNNING", "COMPLETED")
        pald.wait_cycle()
        assert {minicluster.state(job) for job in (theirs, *behind)} == {"PENDING"}
        minicluster.wait_state(theirs, "RUNNING", "COMPLETED", within=60)
        for job in behind:
            minicluster.wait_state(job, "RUNNING", within=60)
            assert started(minicluster, theirs) <= started(minicluster, job)
            assert len(pald.intents(job, EditKind.PIN)) == 1
        assert pald.intents(theirs) == []


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_a_head_kept_waiting_past_its_planned_start_is_released_plain_and_slurm_reserves_for_it(
    minicluster: Minicluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A minute before its planned start counts as past it.
    monkeypatch.setattr("pal_slurm.policy.memory.GRACE_S", -60.0)
    pald = Pald(minicluster, tmp_path)
    daemon = build(load(pald.config), SystemClock())
    try:
        with minicluster.leases():
            with plain(minicluster):
                theirs = minicluster.submit("-N1", "-w", "n1", "--gres=gpu:1", "-t", "1")
                minicluster.wait_state(theirs, "RUNNING")
            head = minicluster.submit("-N8", "--gpus-per-node=4", *LONG)
        report = daemon.cycle.run()
        assert report.end == "ok" and not report.edits, report.sentence
        time.sleep(1.1)
        wait_for(lambda: "released plain 1" in daemon.cycle.run().sentence, "the head is released plain")
        (free,) = pald.intents(head, EditKind.PLAIN)
        assert free.decision and free.decision.reason is Reason.PAST_PLANNED_START
        with plain(minicluster):
            stream = [minicluster.submit("--gres=gpu:1", *LONG) for _ in range(4)]
        wait_for(lambda: bool(planned(minicluster, head)), "Slurm's backfill reserves for it")
        minicluster.client("scancel", str(theirs))
        minicluster.wait_state(head, "RUNNING")
        assert {minicluster.state(job) for job in stream} == {"PENDING"}
    finally:
        daemon.close()


@pytest.mark.slurm(turns=("24.11", "26.05"), slow=("22.05",))
@pytest.mark.parametrize("way", ["a begin time", "no lease at all"])
def test_a_stream_of_jobs_that_takes_no_turn_does_not_starve_a_big_one(
    minicluster: Minicluster, tmp_path: Path, way: str
) -> None:
    with Pald(minicluster, tmp_path) as pald:
        pald.start()
        eight = ("--gres=gpu:1", "-t", "10")
        busy = [minicluster.submit(*eight, wrap="sleep 8") for _ in range(8)]
        for job in busy:
            minicluster.wait_state(job, "RUNNING", "COMPLETED")
        big = minicluster.submit("-N8", "--gpus-per-node=4", *LONG, wrap="sleep 3")
        stream: list[int] = []

        def next_of_stream() -> bool:
            if way == "a begin time":
                stream.extend(minicluster.submit(*eight, "--begin=now+1", wrap="sleep 8") for _ in range(4))
            else:
                with plain(minicluster):
                    stream.extend(minicluster.submit(*eight, wrap="sleep 8") for _ in range(4))
            time.sleep(0.7)
            return minicluster.state(big) != "PENDING"

        wait_for(next_of_stream, "the big job's turn has come", 60)
        minicluster.wait_state(big, "RUNNING", "COMPLETED")
        if way == "no lease at all":
            (free,) = pald.intents(big, EditKind.PLAIN)
            assert free.decision and free.decision.reason is Reason.OVERTAKEN


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_nobody_waits_on_an_idle_cluster_for_what_can_not_come(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path) as pald:
        assert pald.once() == 0
        pald.scores({f"n{n}:{slot}": 1.0 + 0.1 * ((3 * n + slot) % 7) for n in range(1, 9) for slot in range(4)})
        pald.start()
        for shape in (("--gpus=16", "-N1-8"), ("--gpus=32", "-N1-8"), ("-N3", "--gpus-per-node=4"), ("--gres=gpu:4",)):
            job = minicluster.submit(*shape, *LONG, wrap="true")
            wait_for(lambda job=job: bool(pald.intents(job)), "a decision that is written to Slurm")  # type: ignore[misc]
            assert pald.intents(job)[0].edit.kind is EditKind.PIN  # not one renewal
            minicluster.wait_state(job, "COMPLETED")


def planned(cluster: Minicluster, job: int) -> str:
    return cluster.client("squeue", "-h", "-j", str(job), "-O", "SchedNodes:64").strip().replace("(null)", "")
