"""What the demo counts of a job that was stopped and went on, of the log that a real palwork wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from demo_lib.worked import worked

PALWORK = Path(__file__).parents[2] / "scripts" / "palwork"
STEPS = 40


class Job:
    """palwork outside of any cluster, run after run."""

    def __init__(self, home: Path) -> None:
        self.home, self.log, self.runs = home, home / "log", 0
        (home / "etc").mkdir()
        (home / "speeds.json").write_text('{"": {}}')

    def run(self, *words: str, until: int | None = None) -> None:
        """To the end; or stopped by TERM once so many lines of steps are in the log."""
        program = subprocess.Popen(
            [PALWORK, "--steps", str(STEPS), "--base", "0.02", "--log", self.log,
             "--checkpoint", self.home / "saved", *words],
            env={**os.environ, "SLURM_CONF": str(self.home / "etc" / "slurm.conf"), "SLURM_JOB_ID": "7",
                 "SLURM_RESTART_COUNT": str(self.runs)},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.runs += 1
        deadline = time.monotonic() + 30
        while self.steps() < (until or 0):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if until is not None:
            program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=30) == (0 if until is None else 143)

    def steps(self) -> int:
        return self.log.read_text().count('"what": "step"') if self.log.exists() else 0


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_job_that_saved_each_time_did_no_step_twice(job: Job) -> None:
    job.run("--on", "TERM=exit", until=5)
    job.run("--on", "TERM=exit", "--load-time", "0.2", until=10)
    job.run()
    whole = worked(job.log, STEPS)
    assert whole is not None and (whole.runs, whole.twice, whole.lost) == (3, 0, 0)
    assert job.steps() == STEPS
    assert whole.dead_s >= 0.2  # its load is part of it
    assert whole.true_s == pytest.approx(STEPS * 0.02) and whole.ran_s >= 0.9 * whole.true_s


def test_steps_after_the_last_save_are_done_twice_and_counted(job: Job) -> None:
    job.run("--every", "15", until=16)  # the next save is far away, so that the signal comes between the two
    job.run("--every", "15")
    whole = worked(job.log, STEPS)
    assert whole is not None and (whole.runs, whole.lost) == (2, 0)
    assert whole.twice == job.steps() - STEPS > 0


def test_a_job_that_begins_at_zero_again_has_lost_what_it_had_saved(job: Job) -> None:
    job.run("--every", "4", until=9)
    job.run("--from-zero")
    whole = worked(job.log, STEPS)
    assert whole is not None and whole.lost >= 8


def lines(run: int, copy: int, begun: int, steps: int, saved: int, pace: float) -> list[dict[str, object]]:
    """Of one copy, from second 100 * run on."""
    said: list[tuple[str, int]] = [("start", 0), ("resumed" if begun else "began", begun)]
    said += [("step", number) for number in range(begun + 1, steps + 1)] + ([("saved", saved)] if saved else [])
    return [
        {
            "at": 100.0 * run + max(0, step - begun) * pace, "run": run, "copy": copy, "what": what, "step": step,
            "true_step_time": pace,
        }
        for what, step in said
    ]  # fmt: skip


@pytest.mark.parametrize(("saved", "begun", "lost", "twice"), [(10, 10, 0, 0), (10, 8, 2, 0), (8, 8, 0, 2)])
def test_a_step_of_several_nodes_is_done_and_saved_when_all_have_done_and_saved_it(
    tmp_path: Path, saved: int, begun: int, lost: int, twice: int
) -> None:
    """The second copy was ahead: what it had done and saved beyond the first was no step of the job."""
    log = tmp_path / "log"
    first = lines(0, 0, 0, 10, saved, 2.0) + lines(0, 1, 0, 15, 15, 1.0)
    second = lines(1, 0, begun, 20, 0, 1.0) + lines(1, 1, begun, 20, 0, 1.0)
    log.write_text("".join(f"{json.dumps(line)}\n" for line in first + second))
    whole = worked(log, 20)
    assert whole is not None and (whole.runs, whole.lost, whole.twice) == (2, lost, twice)
    assert whole.dead_s == pytest.approx(101.0 - 20.0) and whole.true_s == pytest.approx(20.0 + 20 - begun)


def test_a_run_that_not_all_copies_came_to_begin_did_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    said = lines(0, 0, 0, 10, 10, 1.0) + lines(0, 1, 0, 10, 10, 1.0) + lines(1, 1, 10, 12, 0, 1.0)
    said += lines(2, 0, 10, 20, 0, 1.0) + lines(2, 1, 10, 20, 0, 1.0)
    log.write_text("".join(f"{json.dumps(line)}\n" for line in said))
    whole = worked(log, 20)
    assert whole is not None and (whole.runs, whole.lost, whole.twice) == (3, 0, 0)


def test_a_job_that_never_came_to_its_end_has_lost_the_rest(job: Job) -> None:
    job.run("--on", "TERM=exit", until=5)
    whole = worked(job.log, STEPS)
    assert whole is not None and whole.lost == STEPS - job.steps() > 0
    assert worked(job.log.with_name("none"), STEPS) is None
