"""pal-probe all-reduce under a real srun, whose variables tell each process which rank it is and on which node."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable

import pytest

from pal_slurm.probe.reading import read
from tests.slurm.minicluster import PROJECT, Minicluster

PROBE = ["env", f"PYTHONPATH={PROJECT}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-m", "pal_slurm.probe"]


@pytest.mark.slurm("22.05")  # this machine's own: the others have a Python of their own, without torch
def test_ranks_know_by_slurm_who_they_are_on_one_node_and_on_two(make_minicluster: Callable[..., Minicluster]) -> None:
    """Names of a mini-cluster's nodes lead nowhere, so they are told where to meet."""
    pytest.importorskip("torch")
    cluster = make_minicluster("--nodes", "2", "--gpus", "2")
    for nodes in (1, 2):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            master = f"127.0.0.1:{held.getsockname()[1]}"
        words = ["all-reduce", "--size", "1", "--master", master, "--patience", "40"]
        said = cluster.client("srun", f"-N{nodes}", "--ntasks=2", *PROBE, *words, timeout=60)
        made = read(said.encode(), time.time()).reduces
        assert made is not None and made.job is not None, said
        assert len(made.nodes) == 2 and len(set(made.nodes)) == nodes and set(made.nodes) <= set(cluster.nodes)
        assert [one.bytes for one in made.reduced] == [1 << 20] and made.reduced[0].seconds > 0
