"""What patterns are held against: the names of jobs and scripts, as both backends read them from a real Slurm."""

from __future__ import annotations

import pytest

from pal_slurm.slurm.commands.backend import CliSlurm
from pal_slurm.slurm.port import Slurm
from pal_slurm.slurm.pyslurm.backend import PyslurmSlurm
from tests.slurm.minicluster import Minicluster

LONG = "x" * 300


def seen(slurm: Slurm, cluster: Minicluster) -> None:
    script = cluster.dir / "log" / "train_resnet.sh"
    script.write_text("#!/bin/sh\nsleep 60\n")
    named = int(
        cluster.client("sbatch", "--parsable", "-H", "-o", "/dev/null", "-J", "my job\nname", str(script), "-v")
    )
    wrapped = cluster.submit("-H", "-J", LONG)
    jobs = {job.id: job for job in slurm.snapshot().pending}
    assert jobs[named].name == "my job\nname"
    assert jobs[named].command.split(" ")[0] == str(script)  # 22.05 tells its arguments too
    assert jobs[wrapped].name.startswith("x" * 60)
    assert jobs[wrapped].command == ""


def test_the_cli_backend_reads_names(minicluster: Minicluster) -> None:
    seen(CliSlurm(minicluster.bin), minicluster)


@pytest.mark.slurm("26.05")
def test_pyslurm_reads_names(minicluster: Minicluster) -> None:
    python = (str(minicluster.bin / "in-cluster"), "/usr/local/lib/pal-slurm/pyslurm/bin/python")
    slurm = PyslurmSlurm(python)
    try:
        seen(slurm, minicluster)
    finally:
        slurm.close()
