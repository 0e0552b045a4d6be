"""pald places jobs on several real hosts, to the very slot."""

from __future__ import annotations

import json
import re

from tests.compose.hosts import Hosts
from tests.slurm.minicluster import wait_for


def test_a_job_over_several_hosts_gets_exactly_the_slots_that_score_best(hosts: Hosts) -> None:
    hosts.scores({"n2:1": 0.8, "n2:3": 0.8, "n4:1": 0.8, "n4:3": 0.8})
    job = hosts.submit(
        "-N2", "--ntasks-per-node=1", "--gpus-per-node=2", "--comment=app:resnet", output="/home/alice/two-%j.out",
        wrap="srun palwork --app resnet --steps 10 --base 0.5; srun hostname",
    )  # fmt: skip
    hosts.wait_state(job, "RUNNING")
    assert hosts.gpu_indices(job) == {"n2": "1,3", "n4": "1,3"}
    hosts.wait_state(job, "COMPLETED")
    lines = hosts.run("login", "cat", f"/home/alice/two-{job}.out").stdout.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    assert {(t["node"], *t["gpus"]) for t in told} == {("n2", "g1", "g3"), ("n4", "g1", "g3")}
    names = {line for line in lines if not line.startswith("{")}
    assert names == {hosts.about(node)["Config"]["Hostname"] for node in ("n2", "n4")}  # two hosts, not one twice
    wait_for(lambda: "as pinned" in hosts.client("palctl", "why", str(job)), "pald notes what the job got")


def test_a_job_of_all_gpus_runs_and_what_waits_behind_it_is_placed_when_it_ends(hosts: Hosts) -> None:
    whole = hosts.submit(f"-N{len(hosts.nodes)}", "--gpus-per-node=4", "--time=1", wrap="sleep 8")
    hosts.wait_state(whole, "RUNNING")
    assert hosts.gpu_indices(whole) == dict.fromkeys(hosts.nodes, "0,1,2,3")
    hosts.known({"n3:2": 0.7})
    next_one = hosts.submit("--gpus=a100:1", "--comment=app:resnet", user="bob")
    hosts.wait_state(next_one, "RUNNING")
    assert hosts.gpu_indices(next_one) == {"n3": "2"}
    assert hosts.kinds(next_one)[-1] == "pin"


def test_jobs_of_two_users_share_nodes_without_sharing_gpus(hosts: Hosts) -> None:
    jobs = [hosts.submit("--gres=gpu:1", "--comment=app:bert", user=user) for user in ("alice", "bob") * 8]
    for job in jobs:
        hosts.wait_state(job, "RUNNING", within=60)
    got = [(node, index) for job in jobs for node, index in hosts.gpu_indices(job).items()]
    assert len(got) == len(set(got)) == 16
    assert all(re.fullmatch("[0-3]", index) for _, index in got)


def test_pald_takes_pyslurm_where_it_was_built_and_the_commands_elsewhere(hosts: Hosts) -> None:
    built = hosts.run("pald", "test", "-x", "/opt/pal-slurm/pyslurm/bin/python").returncode == 0
    release = hosts.client("scontrol", "-V").split()[1]
    assert built == (not release.startswith("24.11"))
    told = hosts.client("palctl", "status")
    assert f"{release} through {'pyslurm' if built else 'cli'}" in told and "exact devices" in told
