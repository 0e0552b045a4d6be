"""Limits on GPUs and jobs that say pal:share, on a real Slurm with slurmdbd: nobody has more GPUs than his limit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings
from tests.slurm.test_pald_shares import ONE, SETTINGS, SHARES, running


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_who_has_a_limit_on_gpus_has_no_more_of_them_by_saying_pal_share(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--nodes", "1", "--gpus", "4", "--shards", "2", "--dbd", "--users", "ann,bob")
    for words in (
        ("add", "account", "few", "parent=pal"), ("add", "account", "lab", "parent=few"),
        ("add", "user", "ann", "account=lab"),
        ("modify", "account", "few", "set", "GrpTRES=gres/gpu=1"),
    ):  # fmt: skip
        cluster.client("sacctmgr", "-i", *words)
    conf = (cluster.etc / "slurm.conf").read_text()
    (cluster.etc / "slurm.conf").write_text(conf + "AccountingStorageEnforce=associations,limits\n")
    cluster.restart()
    lua_settings(cluster, shards="pald")
    with Pald(cluster, tmp_path, SETTINGS) as pald:
        pald.start()
        bound = [cluster.submit(*ONE, SHARES, "-A", "lab", user="ann") for _ in range(3)]
        free = [cluster.submit(*ONE, SHARES, "-A", "pal", user="bob") for _ in range(6)]
        for job in (bound[0], *free):
            cluster.wait_state(job, "RUNNING", within=90)
        pald.wait_cycle()
        assert [cluster.state(job) for job in bound] == ["RUNNING", "PENDING", "PENDING"]
        found = running(cluster)
        assert found[bound[0]].gpus != ((),) and not found[bound[0]].parts
        assert all(found[job].parts for job in free)
        assert "has a limit on GPUs (gres/gpu) that names no parts" in pald.palctl("why", str(bound[0]))
        # Who set it knows of parts now.
        cluster.client("sacctmgr", "-i", "modify", "account", "few", "set", "GrpTRES=gres/gpu=1,gres/shard=2")
        pald.send(signal.SIGHUP)
        cluster.client("scancel", *map(str, (*bound, *free)))
        pald.wait_cycle()
        again = [cluster.submit(*ONE, SHARES, "-A", "lab", user="ann") for _ in range(3)]
        wait_for(lambda: sum(cluster.state(job) == "RUNNING" for job in again) == 2, "two parts", within=90)
        pald.wait_cycle()
        states = {job: cluster.state(job) for job in again}
        assert sorted(states.values()) == ["PENDING", "RUNNING", "RUNNING"]
        assert all(running(cluster)[job].parts for job in again if states[job] == "RUNNING")
