"""The backends of a test's cluster. In: a running mini-cluster. Out: something that implements `Slurm`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pal_slurm.model import Job, Request
from pal_slurm.slurm.commands.backend import CliSlurm
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.nodes import SiteWords
from pal_slurm.slurm.port import Slurm
from pal_slurm.slurm.pyslurm.backend import PyslurmSlurm
from tests.slurm.minicluster import Minicluster

LATER = "--begin=now+1hour"  # the user's own begin time: a job that waits, and that lua leaves alone
FORMS = {
    "per node": ("--gres=gpu:2",),
    "per node, its other name": ("--gpus-per-node=2",),
    "in total": ("--gpus=2",),
}
# What naming slots would damage, and why: pinned by nodes alone.
BY_NODES = {
    "per task": ("-n2", "--gpus-per-task=1"),  # two steps at once would get the same GPU
    "CPUs per GPU": ("--gpus=2", "--cpus-per-gpu=3"),  # Slurm would count the CPUs of one GPU, and take more nodes
}
WORKER_PYTHON = "/usr/local/lib/pal-slurm/pyslurm/bin/python"  # where scripts/build-pyslurm puts it in a root
SITE = SiteWords(models=("a100", "v100"))


@contextmanager
def backend_of(cluster: Minicluster, name: str, deadline_s: float = 15.0) -> Iterator[Slurm]:
    slurm: Slurm
    if name == "cli":
        slurm = CliSlurm(cluster.bin, SITE, deadline_s)
    else:
        python = [str(cluster.bin / "in-cluster"), WORKER_PYTHON]
        commands = Commands(cluster.bin, deadline_s)
        slurm = PyslurmSlurm(python, site=SITE, deadline_s=deadline_s, commands=commands)
    try:
        yield slurm
    finally:
        slurm.close()


class ThroughCli:
    """Before a suite of tests: they get the cli backend."""

    @pytest.fixture
    def slurm(self, minicluster: Minicluster) -> Iterator[Slurm]:
        with backend_of(minicluster, "cli") as slurm:
            yield slurm


class ThroughPyslurm:
    @pytest.fixture
    def slurm(self, minicluster: Minicluster) -> Iterator[Slurm]:
        with backend_of(minicluster, "pyslurm") as slurm:
            yield slurm


def asked_for(job: Job) -> Request:
    """The request with "no most nodes" said in numbers: squeue can't tell it from that, and no Slurm takes it back."""
    return replace(job.request, max_nodes=job.request.max_nodes or max(job.request.min_nodes, job.ntasks))
