"""Jobs that pass without a lease: at once, in Slurm's own order, and never past a job that waits under one (P5)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings, mark_of, plain

LET_THROUGH = {"lease.let_through": True}
LONG = ("-t", "60")


def said(cluster: Minicluster) -> str:
    path = cluster.dir / "run" / "pald.alive"
    return path.read_text() if path.exists() else ""


def opened(cluster: Minicluster, what: str = "all") -> None:
    """Wait for a publication that lua believes, whenever it gave a lease last: it says so of a snapshot from now on."""
    since = time.time() + 2  # SETTLED in job_submit.lua, which counts whole seconds

    def open_now() -> bool:
        found = re.search(rf"\npass {what} (\d+) (\d+)\n", said(cluster))
        return found is not None and int(found[1]) >= since

    wait_for(open_now, f"pald lets jobs pass: {what}")


def eligible(cluster: Minicluster, job: int) -> int:
    told = cluster.fields(job)["EligibleTime"]
    return int(time.mktime(time.strptime(told, "%Y-%m-%dT%H:%M:%S")))


def passed(cluster: Minicluster, job: int) -> bool:
    """Marked as ours, and its begin time was the moment of its submission; else it must have been leased."""
    found = re.match(r"pal1\{b=(\d+)", mark_of(cluster, job))
    assert found is not None, f"job {job} bears no mark"
    submit = time.mktime(time.strptime(cluster.fields(job)["SubmitTime"], "%Y-%m-%dT%H:%M:%S"))
    assert abs(int(found[1]) - submit) <= 2 or int(found[1]) - submit >= 10, found[0]
    return abs(int(found[1]) - submit) <= 2


def start_of(cluster: Minicluster, job: int) -> str:
    return cluster.client("squeue", "-h", "-t", "all", "-j", str(job), "-O", "StartTime:32").strip()


def a_lease_ago() -> None:
    """Until a publication of now is young enough, whatever lua did last."""
    until = time.time() + 2  # as in `opened`
    wait_for(lambda: time.time() > until, "job_submit.lua's last lease lies behind")


@contextmanager
def publication(cluster: Minicluster) -> Iterator[Callable[..., None]]:
    """The file as pald would write it. `publish("pass all TAKEN TILL")`; taken now, ends in a minute."""
    path = cluster.dir / "run" / "pald.alive"

    def publish(*lines: str, end: str = "end\n", ahead: int = 60) -> None:
        now = int(time.time())
        text = "".join(f"{line}\n" for line in lines).replace("TAKEN", str(now)).replace("TILL", str(now + ahead))
        fresh = path.with_suffix(".new")
        fresh.write_text(f"{now} 0000abcd\n{text}{end}")
        fresh.replace(path)

    try:
        yield publish
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.slurm(turns=("24.11", "26.05"), slow=("22.05",))
def test_jobs_that_pass_cost_no_edit_and_start_in_slurms_own_order(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path, LET_THROUGH) as pald:
        pald.start()
        opened(minicluster)
        journal = Journal(minicluster)
        assert minicluster.client("srun", "--gres=gpu:1", "hostname").strip()
        jobs = minicluster.submit_many(48, "--gres=gpu:1", wrap="sleep 2")
        first, last = jobs[0], jobs[-1]
        assert passed(minicluster, first) and passed(minicluster, last)
        minicluster.wait_state(last, "RUNNING", "COMPLETED", within=60)
        starts = [start_of(minicluster, job) for job in jobs]
        assert starts == sorted(starts)
        pald.wait_cycle()
        assert pald.ledger() == [] and not journal.edited()


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_burst_never_overtakes_a_job_that_waits(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path, LET_THROUGH) as pald:
        pald.start()
        opened(minicluster)
        first = minicluster.submit("--gres=gpu:1", *LONG)
        minicluster.wait_state(first, "RUNNING")
        opened(minicluster)
        # Its span matters, so it is leased, and it does not fit: in the same breath come those that would.
        script = "sbatch --parsable -o /dev/null -N8 --gpus-per-node=4 -t 60 --wrap 'sleep 3';" + (
            "for i in $(seq 12); do sbatch --parsable -o /dev/null --gres=gpu:1 -t 60 --wrap 'sleep 60'; done"
        )
        head, *burst = (int(word) for word in minicluster.client("sh", "-c", script, timeout=60).split())
        assert not passed(minicluster, head)
        assert not any(passed(minicluster, job) for job in burst)
        pald.wait_cycle()
        assert "pass" not in said(minicluster)
        late = minicluster.submit("--gres=gpu:1", *LONG)
        burst.append(late)
        assert not passed(minicluster, late)
        pald.wait_cycle()
        assert {minicluster.state(job) for job in (head, *burst)} == {"PENDING"}
        minicluster.client("scancel", str(first))
        minicluster.wait_state(head, "RUNNING", "COMPLETED", within=60)
        for job in burst:
            minicluster.wait_state(job, "RUNNING", within=60)
            assert start_of(minicluster, head) <= start_of(minicluster, job)
        opened(minicluster)
        assert passed(minicluster, minicluster.submit("--gres=gpu:1"))


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_jobs_that_wait_under_a_lease_are_let_go_in_their_order(minicluster: Minicluster, tmp_path: Path) -> None:
    with plain(minicluster):
        blocker = minicluster.submit("-N8", "--gpus-per-node=4", *LONG)
    minicluster.wait_state(blocker, "RUNNING")
    with Pald(minicluster, tmp_path, LET_THROUGH) as pald, minicluster.leases():
        lua_settings(minicluster, lease="60")
        jobs = [minicluster.submit("--gres=gpu:1", *LONG) for _ in range(3)]
        assert not any(passed(minicluster, job) for job in jobs)
        pald.start()
        wait_for(lambda: {i.edit.job for i in pald.ledger()} == set(jobs), "all three are let go")
        assert [(i.edit.job, i.edit.kind) for i in pald.ledger()] == [(job, EditKind.PLAIN) for job in jobs]
        assert "Nothing is known that could tell one GPU from another" in pald.palctl("why", str(jobs[0]))
        opened(minicluster)  # those that wait are in Slurm's own queue, so others may join it behind them
        behind = minicluster.submit("--gres=gpu:1", *LONG)
        assert passed(minicluster, behind)
        pald.wait_cycle()
        assert len(pald.ledger()) == 3  # nobody is leased again for nothing
        assert {minicluster.state(job) for job in (*jobs, behind)} == {"PENDING"}
        minicluster.client("scancel", str(blocker))
        for job in (*jobs, behind):
            minicluster.wait_state(job, "RUNNING", within=60)


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_jobs_that_are_over_too_soon_pass_once_their_kind_is_known(minicluster: Minicluster, tmp_path: Path) -> None:
    kind = ("--gres=gpu:1", "--comment=app:resnet")
    with Pald(minicluster, tmp_path, LET_THROUGH) as pald:
        pald.start()
        pald.scores({"n1:1": 1.3})
        pald.wait_cycle()
        wait_for(lambda: "pass" not in said(minicluster), "GPUs differ, and no kind of jobs is known")
        first = minicluster.submit_many(40, *kind, wrap="sleep 1")
        assert not passed(minicluster, first[0])
        opened(minicluster, "brief")
        assert f"\nbrief {os.getuid()} resnet\n" in said(minicluster)
        taught = len(pald.ledger())
        assert passed(minicluster, minicluster.submit(*kind))
        assert minicluster.client("srun", *kind, "hostname").strip()
        pald.wait_cycle()
        assert len(pald.ledger()) == taught
        assert not passed(minicluster, minicluster.submit("--gres=gpu:1", "--comment=app:bert"))


@pytest.mark.slurm(turns=("24.11", "26.05"), slow=("22.05",))
def test_a_job_that_passed_and_can_not_start_is_taken_up_again(minicluster: Minicluster, tmp_path: Path) -> None:
    with plain(minicluster):
        blocker = minicluster.submit("-N8", "--gpus-per-node=4", *LONG)
    minicluster.wait_state(blocker, "RUNNING")
    with publication(minicluster) as publish:
        a_lease_ago()
        publish("pass brief TAKEN TILL", f"brief {os.getuid()} -")
        job = minicluster.submit("--gres=gpu:1", *LONG)
        assert passed(minicluster, job)
        assert f"b={eligible(minicluster, job)}" in mark_of(minicluster, job)
        reasons = ("Resources", "Priority")
        wait_for(lambda: minicluster.fields(job)["Reason"] in reasons, "Slurm looked at it, and can't start it")
    with Pald(minicluster, tmp_path, LET_THROUGH) as pald:
        pald.start()
        pald.scores({"n1:0": 2.0})
        wait_for(lambda: bool(pald.intents(job, EditKind.LEASE)), "it is leased")
        assert "pass" not in said(minicluster)
        minicluster.client("scancel", str(blocker))
        minicluster.wait_state(job, "RUNNING", within=60)
        wait_for(lambda: bool(pald.intents(job, EditKind.PIN)), "it is placed")
        assert minicluster.gpu_indices(job) != {"n1": "0"}


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_a_stale_torn_or_odd_publication_lets_nobody_pass(minicluster: Minicluster) -> None:
    with publication(minicluster) as publish:
        a_lease_ago()
        publish("pass all TAKEN TILL")
        held = ("--hold", "--gres=gpu:1")
        assert passed(minicluster, minicluster.submit("--gres=gpu:4"))
        assert passed(minicluster, minicluster.submit("--gpus=1", "-n1", "-c4"))
        for options in (held, ("--gres=gpu:1", "--array=1-2"), ("-n4", "--gres=gpu:1"), ("-N2", "--gpus-per-node=1")):
            publish("pass all TAKEN TILL")
            a_lease_ago()
            publish("pass all TAKEN TILL")
            assert not passed(minicluster, minicluster.submit(*options)), options
        for lines, end in (
            (("pass all TAKEN TILL",), ""),
            (("pass all TAKEN TI",), "end\n"),
            (("pass all 5 TILL",), "end\n"),
            (("pass all TAKEN 5",), "end\n"),
        ):
            a_lease_ago()
            publish(*lines, end=end)
            assert not passed(minicluster, minicluster.submit("--gres=gpu:1")), lines


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_with_pald_dead_nothing_passes_a_few_seconds_later(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path, LET_THROUGH) as pald:
        pald.start()
        opened(minicluster)
        pald.kill()
    till = int(re.search(r"\npass all \d+ (\d+)\n", said(minicluster))[1])  # type: ignore[index]
    assert till <= time.time() + 5
    wait_for(lambda: time.time() > till + 1, "its word is stale")
    assert not passed(minicluster, minicluster.submit("--gres=gpu:1"))


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_qos_that_may_preempt_are_known_from_slurm_itself(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    preempt = ("--set", "PreemptType=preempt/qos", "--set", "PreemptMode=REQUEUE")
    cluster = make_minicluster("--nodes", "2", "--gpus", "2", "--dbd", *preempt)
    for words in (
        ("add", "qos", "low,high"),
        ("modify", "qos", "high", "set", "preempt=low"),
        ("modify", "user", "root", "set", "qos+=low,high"),
    ):
        cluster.client("sacctmgr", "-i", *words)
    with Pald(cluster, tmp_path) as pald:
        pald.start()
        wait_for(lambda: "\npreempt high\n" in said(cluster), "pald tells job_submit.lua")
        assert not mark_of(cluster, cluster.submit("--gres=gpu:1", "--qos=high", "--hold"))
        assert mark_of(cluster, cluster.submit("--gres=gpu:1", "--qos=low", "--hold"))
        assert mark_of(cluster, cluster.submit("--gres=gpu:1", "--hold"))
