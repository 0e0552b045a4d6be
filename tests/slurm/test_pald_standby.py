"""A second slurmctld takes over while jobs wait for pald: pald goes on with it, and nobody loses lease or turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald


@pytest.mark.slow
def test_pald_goes_on_with_the_slurmctld_that_took_over(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--nodes=1", "--gpus=1", "--backup")
    with Pald(cluster, tmp_path) as pald:
        pald.start()
        first, second = (cluster.submit("--gres=gpu:1", "-t", "10") for _ in range(2))
        cluster.wait_state(first, "RUNNING")
        pald.wait_cycle()
        cluster.client("scontrol", "takeover", timeout=100)
        third = cluster.submit("--gres=gpu:1", "-t", "10")
        pald.wait_cycle()
        for ended, next_ in ((first, second), (second, third)):
            cluster.client("scancel", str(ended))
            cluster.wait_state(next_, "RUNNING")
            (pin,) = pald.intents(next_, EditKind.PIN)
            assert pin.outcome is Outcome.DONE
        assert "DOWN" in cluster.run("scontrol", "ping").stdout.splitlines()[0]
