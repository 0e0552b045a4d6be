"""pal-run in jobs of real clusters: the signal, a save, one requeue by itself, and the next run goes on there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.minicluster import PROJECT, Minicluster, wait_for
from tests.slurm.test_palwork import start_again, wait_for_step
from tests.slurm.worklog import WorkLog

pytestmark = pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))

PAL_RUN = f"env PYTHONPATH={PROJECT} PYTHONDONTWRITEBYTECODE=1 python3 -m pal_slurm.probe.running"


def line(home: Path, name: str = "work") -> tuple[str, WorkLog]:
    """palwork, which only saves when it is asked, under pal-run, which has the job requeued."""
    log = WorkLog(home / name)
    saved = f"{log.path}.saved"
    work = f"palwork --base 0.02 --steps 150 --log {log.path} --checkpoint {saved} --on USR1=go-on"
    return f"{PAL_RUN} --saved {saved} --meet {home} -- {work}", log


def state_of(cluster: Minicluster, task: str) -> str:
    return cluster.client("squeue", "-h", "-t", "all", "-j", task, "-o", "%T").strip()


def restarts(cluster: Minicluster, job: object) -> str:
    return cluster.client("squeue", "-h", "-t", "all", "-j", str(job), "-O", "RestartCnt").strip()


def test_a_batch_script_that_is_pal_run_saves_requeues_and_resumes(minicluster: Minicluster, tmp_path: Path) -> None:
    words, log = line(tmp_path)
    job = minicluster.submit("--requeue", "--gres=gpu:1", wrap=f"exec {words}")
    wait_for_step(log, 2)
    minicluster.client("scancel", "--signal=USR1", "--batch", str(job))
    start_again(minicluster, job)
    minicluster.wait_state(job, "COMPLETED")
    last = log.lines("saved", 0)[-1]["step"]
    assert log.resumed(1) == [last] and log.steps(1) == list(range(last + 1, 151))


def test_the_tasks_of_a_step_on_two_nodes_requeue_their_job_once(minicluster: Minicluster, tmp_path: Path) -> None:
    words, log = line(tmp_path)
    job = minicluster.submit("--requeue", "-N2", "--ntasks-per-node=1", "--gres=gpu:1", wrap=f"srun {words}")
    wait_for(lambda: all(len(log.steps(copy=copy)) > 1 for copy in (0, 1)), "both are at work")
    minicluster.client("scancel", "--signal=USR1", str(job))
    start_again(minicluster, job)
    assert restarts(minicluster, job) == "1"
    minicluster.wait_state(job, "COMPLETED")
    began = log.resumed(1, copy=None)
    assert len(began) == 2 and began[0] == began[1] > 0
    for copy in (0, 1):
        assert log.steps(1, copy) == list(range(began[0] + 1, 151))


def test_the_last_task_of_an_array_requeues_itself_alone(minicluster: Minicluster, tmp_path: Path) -> None:
    words, _ = line(tmp_path, "$SLURM_ARRAY_TASK_ID")
    logs = [WorkLog(tmp_path / str(task)) for task in (0, 1)]
    endless = words.replace("--steps 150", "--steps 9999")
    job = minicluster.submit("--requeue", "--gres=gpu:1", "--array=0-1", wrap=f"exec {endless}")
    for log in logs:
        wait_for_step(log, 2)
    minicluster.client("scancel", "--signal=USR1", "--batch", f"{job}_1")
    wait_for(lambda: state_of(minicluster, f"{job}_1") == "PENDING", "the last task is requeued")
    assert state_of(minicluster, f"{job}_0") == "RUNNING"


def test_what_slurm_can_not_requeue_saves_and_goes_on(minicluster: Minicluster, tmp_path: Path) -> None:
    words, log = line(tmp_path)
    job = minicluster.submit("--no-requeue", "--gres=gpu:1", "-o", str(tmp_path / "out"), wrap=f"exec {words}")
    wait_for_step(log, 2)
    minicluster.client("scancel", "--signal=USR1", "--batch", str(job))
    minicluster.wait_state(job, "COMPLETED")
    assert log.steps() == list(range(1, 151)) and log.lines("saved") != []
    assert f"Slurm does not requeue job {job}" in (tmp_path / "out").read_text()
