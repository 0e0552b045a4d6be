"""The backends of a test's cluster. In: a running mini-cluster. Out: something that implements `Slurm`."""

from collections.abc import Iterator
from contextlib import contextmanager

from pal_slurm.slurm.cli_backend import CliSlurm
from pal_slurm.slurm.nodes import Site
from pal_slurm.slurm.port import Slurm
from pal_slurm.slurm.pyslurm_backend import PyslurmSlurm
from tests.slurm.minicluster import Minicluster

WORKER_PYTHON = "/usr/local/lib/pal-slurm/pyslurm/bin/python"  # where scripts/build-pyslurm puts it in a root
SITE = Site(models=("a100", "v100"))


@contextmanager
def backend_of(cluster: Minicluster, name: str, deadline_s: float = 15.0) -> Iterator[Slurm]:
    slurm: Slurm
    if name == "cli":
        slurm = CliSlurm(cluster.bin, SITE, deadline_s)
    else:
        slurm = PyslurmSlurm([str(cluster.bin / "in-cluster"), WORKER_PYTHON], site=SITE, deadline_s=deadline_s)
    try:
        yield slurm
    finally:
        slurm.close()
