"""A sweep as a job array on a real Slurm: a node dies in the middle, and no run is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for

GRID = """
traces: ["synthetic:jobs=600"]
clusters: [16x4/4]
policies: [packed, pal]
loads: [0.6, 0.95]
seeds: 8
"""
PALCTL = [sys.executable, "-c", "from pal_slurm.cli.palctl import main; main()"]


@pytest.mark.every(3)
@pytest.mark.slurm("22.05")  # the one release whose jobs run outside a root of their own, and so see this program
def test_a_job_array_survives_the_death_of_a_node(
    release: str, make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--nodes", "2", "--gpus", "1")
    pal, grid = tmp_path / "pal.yaml", tmp_path / "grid.yaml"
    pal.write_text(f"state_dir: {tmp_path}\ncluster: {{backend: cli, bin_dir: {cluster.bin}}}\n")
    grid.write_text(GRID)
    words = [*PALCTL, "--config", str(pal), "sweep", str(grid)]
    slurm = ["--slurm", "2", "--sbatch=--exclusive"]
    array = subprocess.Popen([*words, *slurm], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    kept = tmp_path / "grid.csv.runs"
    wait_for(lambda: len(list(kept.glob("*.json"))) > 1 or array.poll() is not None, "some runs are kept", 60)
    assert array.poll() is None
    running = cluster.client("squeue", "-h", "-t", "R", "-o", "%N %i").split("\n")
    assert len(set(running)) >= 2, running
    cluster.daemon("kill", "n2")  # what it ran goes on for a while: then two work on one share
    cluster.client("scontrol", "update", "nodename=n2", "state=down", "reason=dead")
    (again,) = (line.split()[1] for line in running if line.startswith("n2"))
    wait_for(lambda: cluster.client("squeue", "-h", "-j", again, "-o", "%t").strip() == "PD", f"{again} is requeued")
    cluster.client("scontrol", "update", f"jobid={again}", "StartTime=now")  # Slurm itself waits two minutes
    out, err = array.communicate(timeout=180)
    assert array.returncode == 0, err
    assert "32 runs are in" in out and len(list(kept.glob("*.json"))) == 32
    here = tmp_path / "here.csv"
    subprocess.run([*words, "--out", str(here), "--processes", "1"], check=True, stdout=subprocess.DEVNULL)
    assert here.read_bytes() == (tmp_path / "grid.csv").read_bytes()
