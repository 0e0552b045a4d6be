"""The live page beside the cluster, and a user of the login host who asks pald on its own host."""

from __future__ import annotations

import time
from base64 import b64decode

from pal_slurm.page.token import user_of
from tests.compose.hosts import Hosts
from tests.slurm.minicluster import wait_for

_FETCH = "import sys, urllib.request; print(urllib.request.urlopen('http://page:9753' + sys.argv[1]).read().decode())"


def fetched(hosts: Hosts, path: str) -> str:
    return hosts.client("python3", "-c", _FETCH, path)


def test_the_page_shows_who_runs_where_and_can_write_nothing(hosts: Hosts) -> None:
    hosts.wait_healthy("page")
    hosts.known({"n3:0": 0.7})
    job = hosts.submit("--pal-app=resnet", "--gres=gpu:1", user="alice")
    hosts.wait_state(job, "RUNNING")
    wait_for(lambda: f'href="./job/{job}"' in fetched(hosts, "/running"), "the page shows the job")
    wait_for(lambda: "Placements weighed" in fetched(hosts, f"/job/{job}"), "and its story")
    assert "n3:g0" in fetched(hosts, f"/job/{job}") and "alice" in fetched(hosts, "/running")
    assert "reads all that it needs" in fetched(hosts, "/health")
    for path in ("/etc/pal-slurm", "/run/pal-slurm"):
        assert hosts.run("page", "touch", f"{path}/x").returncode != 0


def test_alice_asks_from_the_login_host_of_her_job_and_of_bob_s(hosts: Hosts) -> None:
    hosts.known({"n3:0": 0.7})
    hers = hosts.submit("--pal-app=resnet", "--gres=gpu:1", user="alice")
    his = hosts.submit("--pal-app=resnet", "--gres=gpu:1", user="bob")
    for job in (hers, his):
        hosts.wait_state(job, "RUNNING")
    wait_for(lambda: "as pinned" in hosts.run("login", "palctl", "why", str(hers), user="alice").stdout, "she is told")
    refused = hosts.run("login", "palctl", "why", str(his), user="alice")
    assert refused.returncode == 65 and "of yours is known" in refused.stderr
    assert "bob" not in hosts.client("palctl", "jobs", "--json", user="alice")


def test_a_token_that_slurm_gives_says_whose_it_is(hosts: Hosts) -> None:
    """What `palctl` on a login host shows to a page that has Slurm's key."""
    told = hosts.client("scontrol", "token", "lifespan=600", user="alice").strip().removeprefix("SLURM_JWT=")
    key = b64decode(hosts.run("slurmdbd", "base64", "-w0", "/secrets/jwt_hs256.key").stdout)
    assert user_of(told.encode(), key, time.time()) == "alice"
    assert user_of(told.encode(), key, time.time() + 700) == ""
    assert user_of(told.encode(), key[::-1], time.time()) == ""
