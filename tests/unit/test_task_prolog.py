"""What spank/pal_task_prolog tells Slurm, whatever a task's environment holds; tests/slurm has real jobs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

PROLOG = Path(__file__).parents[2] / "spank" / "pal_task_prolog"
SHELLS = [found for name in ("dash", "bash", "busybox") if (found := shutil.which(name))]


def said(shell: str, environment: Mapping[str, str]) -> list[str]:
    words = [shell, *(["sh"] if shell.endswith("busybox") else []), *(["--posix"] if shell.endswith("bash") else [])]
    done = subprocess.run(
        [*words, str(PROLOG)], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_steps_of_a_job_with_shards_ask_for_as_many_and_for_no_gpus(shell: str) -> None:
    lines = said(shell, {"SLURM_SHARDS_ON_NODE": "2", "SLURM_JOB_ID": "7", "SLURM_GPUS": "1"})
    assert lines[:2] == ["export SLURM_GRES=shard:2", "export PAL_SHARDS_OF=7"]
    assert {"unset SLURM_GPUS", "unset SLURM_GPUS_PER_NODE", "unset SLURM_TRES_PER_TASK"} < set(lines)
    assert all(line.startswith("unset SLURM_") for line in lines[2:])


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "shards", ["", "0", "00", "x", "1;id", "1\nexport A=1", "-1", "1e3", "999999999", "$(id)", "é", " 1"]
)
def test_what_is_no_number_of_shards_is_none(shell: str, shards: str) -> None:
    assert said(shell, {"SLURM_SHARDS_ON_NODE": shards}) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_without_shards_is_left_alone_unless_it_came_from_one_with_some(shell: str) -> None:
    assert said(shell, {"SLURM_GPUS": "2", "SLURM_GRES": "gpu:2"}) == []
    assert said(shell, {"PAL_SHARDS_OF": "7", "SLURM_JOB_ID": "8"}) == ["unset SLURM_GRES", "unset PAL_SHARDS_OF"]
    assert said(shell, {"PAL_SHARDS_OF": "7", "SLURM_JOB_ID": "7"}) == []  # a step of that job that wants no part


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hostile_environment_changes_nothing(shell: str) -> None:
    hostile = {
        "PATH": "/nowhere", "IFS": "01 shard", "ENV": "/dev/full", "BASH_ENV": "/dev/full", "CDPATH": "/",
        "SHELLOPTS": "errexit:nounset", "POSIXLY_CORRECT": "", "PS4": "$(exit 3)", "shards": "5",
        "name": "x", "LONG": "x" * 100_000,
    }  # fmt: skip
    asked = {"SLURM_SHARDS_ON_NODE": "1", "SLURM_JOB_ID": "7"}
    assert said(shell, hostile | asked) == said(shell, asked)
    assert said(shell, hostile) == []
