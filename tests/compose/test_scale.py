"""The number of nodes is one variable; keys and accounts stay when it changes."""

from __future__ import annotations

import os

from tests.compose.hosts import Hosts, compose
from tests.slurm.minicluster import wait_for


def up(hosts: Hosts, nodes: int) -> None:
    compose(hosts.project, "up", "-d", "--wait", env={**os.environ, "NODES": str(nodes)})


def test_one_variable_makes_the_cluster_larger_and_smaller_again(hosts: Hosts) -> None:
    before = hosts.run("slurmctld", "sha256sum", "/etc/munge/munge.key").stdout
    try:
        up(hosts, 5)
        wait_for(lambda: hosts.node_state("n5") == "idle", "n5 is idle", 60)
        job = hosts.submit("-N5", "--gpus-per-node=4", wrap="srun true")
        hosts.wait_state(job, "COMPLETED", within=60)
        assert hosts.fields(job)["NodeList"] == "n[1-5]"
    finally:
        up(hosts, len(hosts.nodes))
    assert hosts.client("sinfo", "-h", "-o", "%D").strip() == str(len(hosts.nodes))
    assert hosts.run("slurmctld", "sha256sum", "/etc/munge/munge.key").stdout == before
    hosts.wait_pald()
    last = hosts.submit("--gres=gpu:1", wrap="true")
    hosts.wait_state(last, "COMPLETED")
    assert last > job  # slurmctld's state is on a volume
