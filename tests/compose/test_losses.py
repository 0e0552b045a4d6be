"""Hosts go away, in every way that hosts do, and come back. No job is lost, none runs twice, pald goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose.hosts import Hosts
from tests.slurm.minicluster import wait_for


@pytest.fixture(autouse=True)
def nobody_passes(hosts: Hosts) -> Iterator[None]:
    """These look at leases and pins; with all GPUs alike every job would start without either."""
    with hosts.settings("lease: {let_through: false}"):
        yield


@pytest.mark.parametrize("how", ["kill", "pause", "cut"])
def test_a_pinned_job_whose_node_is_lost_runs_elsewhere_and_the_node_comes_back(hosts: Hosts, how: str) -> None:
    hosts.known({"n2:0": 0.7, "n2:1": 0.7})
    job = hosts.submit("--gres=gpu:2", "--comment=app:resnet", "--requeue")
    hosts.wait_state(job, "RUNNING")
    assert hosts.gpu_indices(job) == {"n2": "0,1"} and hosts.fields(job)["ReqNodeList"] == "n2"
    with hosts.without("n2", how):
        hosts.wait_state(job, "PENDING", within=120)  # Slurm gave the node up, and the pin still names it
        hosts.wait_state(job, "RUNNING", within=240)
        assert set(hosts.gpu_indices(job)) & {"n1", "n3", "n4"}
        assert hosts.kinds(job) == ["unpin", "pin"]  # since it was queued anew
    # Of a node that it gave up and that did not start anew, slurmctld asks every few minutes only.
    wait_for(lambda: hosts.node_state("n2") == "idle", "n2 is used again", 400)
    back = hosts.submit("--gres=gpu:2", "--comment=app:resnet", wrap="srun sleep 4")
    hosts.wait_state(back, "RUNNING")
    assert hosts.gpu_indices(back) == {"n2": "0,1"}
    hosts.wait_state(back, "COMPLETED")


def test_a_node_lost_between_pin_and_start_costs_the_job_nothing(hosts: Hosts) -> None:
    """Slurm still believes in a node that has just stopped answering, and so does pald."""
    hosts.known({"n4:3": 0.7})
    with hosts.without("n4", "pause"):
        job = hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="sleep 3; touch ran")
        wait_for(lambda: "unpin" in hosts.kinds(job), "the pin to n4 is taken back", 240)
        hosts.wait_state(job, "COMPLETED", within=240)
        assert hosts.fields(job)["NodeList"] in ("n1", "n2", "n3")
    assert hosts.run("login", "test", "-e", "/home/alice/ran").returncode == 0


@pytest.mark.parametrize("how", ["restart", "killed in its first minutes"])
def test_slurmctld_restarted_with_jobs_waiting_and_running_loses_none(hosts: Hosts, how: str) -> None:
    running = hosts.submit("--gres=gpu:4", wrap="sleep 25")
    hosts.wait_state(running, "RUNNING")
    name = f"behind-{running}"
    whole = hosts.submit("-J", name, f"-N{len(hosts.nodes)}", "--gpus-per-node=4", wrap="srun true")
    if how == "restart":
        hosts.do("restart", "slurmctld")
    else:
        # It saves jobs within seconds. Without the other files, which it writes after minutes for the first time,
        # slurmctld by itself never starts again.
        saved = ["grep", "-q", name, "/var/lib/slurm/state/job_state"]
        wait_for(lambda: hosts.run("slurmctld", *saved).returncode == 0, "the jobs are saved")
        hosts.run("slurmctld", "sh", "-c", "rm -f /var/lib/slurm/state/*_usage*")
        hosts.do("kill", "slurmctld")
        hosts.do("start", "slurmctld")
    hosts.wait_healthy("slurmctld")
    hosts.wait_pald()
    new = hosts.submit("--gres=gpu:1", "--comment=app:resnet", "--time=1", wrap="true")
    for job in (running, whole, new):
        hosts.wait_state(job, "COMPLETED", within=120)
    assert hosts.kinds(whole)[-1] == "pin" and hosts.kinds(running).count("pin") == 1


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_pald_restarted_places_jobs_again_and_none_was_lost(hosts: Hosts, how: str) -> None:
    """A clean end frees what waits, at once; killed, it finds its leases again."""
    blocker = hosts.submit(f"-N{len(hosts.nodes)}", "--gpus-per-node=4", "--time=1", wrap="sleep 15")
    hosts.wait_state(blocker, "RUNNING")
    waiting = [hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="sleep 1") for _ in range(6)]
    hosts.do(how, "pald")
    if how == "kill":
        hosts.do("start", "pald")
    hosts.wait_pald()
    for job in waiting:
        hosts.wait_state(job, "COMPLETED", within=90)
        assert hosts.kinds(job).count("pin") == (1 if how == "kill" else 0), hosts.edits(job)
    new = hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="true")
    hosts.wait_state(new, "COMPLETED")
    assert hosts.kinds(new) == ["pin"]


def test_with_pald_gone_every_job_starts_and_the_dead_mans_timer_frees_the_queue(hosts: Hosts) -> None:
    blocker = hosts.submit(f"-N{len(hosts.nodes)}", "--gpus-per-node=4", "--time=2", wrap="sleep 75")
    hosts.wait_state(blocker, "RUNNING")
    waiting = [hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="sleep 1") for _ in range(4)]
    wait_for(lambda: all("renew" in hosts.kinds(job) for job in waiting), "leases are renewed", 60)
    with hosts.without("pald", "kill"):
        for job in waiting:
            hosts.wait_state(job, "COMPLETED", within=180)
        assert all("pin" not in hosts.kinds(job) for job in waiting)
        wait_for(lambda: hosts.silence() > 61, "pald has been silent for a minute", 90)
        late = hosts.submit("--gres=gpu:1", wrap="sleep 1")  # no sign of life, no lease: as in plain Slurm
        assert "pal1{" not in hosts.fields(late).get("AdminComment", "")
        hosts.wait_state(late, "COMPLETED")
    hosts.wait_pald()


def test_without_its_database_pald_writes_nothing_and_jobs_start_by_themselves(hosts: Hosts) -> None:
    with hosts.without("mariadb", "stop"):
        job = hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="sleep 1")
        hosts.wait_state(job, "COMPLETED", within=90)
        assert hosts.fields(job).get("ReqNodeList", "(null)") == "(null)"
    hosts.wait_healthy("mariadb", "slurmdbd")
    hosts.wait_pald()
    new = hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="sleep 1")
    hosts.wait_state(new, "COMPLETED")
    assert hosts.kinds(new) == ["pin"]
    # Accounting caught up, too: slurmctld kept what slurmdbd could not take.
    wait_for(
        lambda: hosts.client("sacct", "-nX", "-j", f"{job},{new}", "-o", "state").split() == ["COMPLETED"] * 2,
        "both jobs are in the accounting database", 90,
    )  # fmt: skip


def test_pald_cut_off_from_slurmctld_says_so_and_goes_on_when_the_network_is_back(hosts: Hosts) -> None:
    job = 0
    with hosts.without("pald", "cut"):
        job = hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="sleep 1")
        assert "pal1{" in hosts.fields(job)["AdminComment"]  # its last sign of life is fresh: a lease
        hosts.wait_state(job, "COMPLETED", within=90)
    hosts.wait_pald(within=120)
    assert hosts.kinds(job) == []
    new = hosts.submit("--gres=gpu:1", "--comment=app:resnet", wrap="true")
    hosts.wait_state(new, "COMPLETED")
    assert hosts.kinds(new) == ["pin"]
