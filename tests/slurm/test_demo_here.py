"""The demo on a cluster that is there already: it waits a little for others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.slurm.minicluster import PROJECT, Minicluster


def wait_until_empty(cluster: Minicluster, most_s: int) -> subprocess.CompletedProcess[str]:
    path = f"{cluster.bin}{os.pathsep}{os.environ['PATH']}"
    code = f"from demo_lib.standing import wait_until_empty; wait_until_empty({most_s})"
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT / "scripts")},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.slurm("26.05")
def test_short_jobs_may_end_first_and_beside_long_ones_it_does_not_start(minicluster: Minicluster) -> None:
    assert wait_until_empty(minicluster, 0).stderr == ""
    minicluster.submit("--gres=gpu:1", wrap="sleep 2")
    done = wait_until_empty(minicluster, 60)
    assert (done.returncode, minicluster.client("squeue", "-h")) == (0, ""), done.stderr
    assert "waits up to 60 s for jobs that `squeue` shows (1)" in done.stderr
    minicluster.submit("--gres=gpu:1")
    done = wait_until_empty(minicluster, 1)
    assert done.returncode == 1 and "let them end, or cancel them" in done.stderr
