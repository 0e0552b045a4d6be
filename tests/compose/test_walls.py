"""Who may see and do what: an ordinary user, the image, the containers."""

from __future__ import annotations

import pytest

from tests.compose.hosts import DAEMONS, Hosts, docker


def test_an_ordinary_users_job_is_placed_though_she_can_read_nothing_of_palds(hosts: Hosts) -> None:
    hosts.known({"n3:0": 0.7})
    job = hosts.submit("--pal-app=resnet", "--gres=gpu:1", wrap="sleep 3; cat /etc/pal-slurm/* /secrets/*", output="x")
    hosts.wait_state(job, "RUNNING")
    assert hosts.gpu_indices(job) == {"n3": "0"} and hosts.kinds(job) == ["pin"]
    hosts.wait_state(job, "FAILED", "COMPLETED")
    for line in hosts.run("login", "cat", "/home/alice/x").stdout.splitlines():
        assert line.endswith(("No such file or directory", "Permission denied")), line


@pytest.mark.parametrize(
    "words",
    [
        "cat /etc/pal-slurm/pal.yaml",
        "cat /etc/pal-slurm/database.url",
        "cat /etc/munge/munge.key",
        "ls /secrets/pal.password",
        "palctl status",
        "mariadb -h mariadb -u pal pal_slurm -e 'select 1'",
        "mariadb -h mariadb -u root -e 'select 1'",
        "touch /srv/slurm/etc/slurm.conf",
        "touch /srv/slurm/speeds.json",
        "sh -c 'echo 99999999999 >/run/pal-slurm/alive'",
        "sh -c 'echo . >>/run/pal-slurm/wake'",
        "scontrol update nodename=n1 state=drain reason=mine",
        "scontrol reconfigure",
    ],
)
def test_an_ordinary_user_is_refused(hosts: Hosts, words: str) -> None:
    done = hosts.run("login", "sh", "-c", words, user="alice")
    assert done.returncode != 0, done.stdout


def test_a_user_can_not_forge_a_mark_and_the_token_of_one_is_not_the_token_of_another(hosts: Hosts) -> None:
    done = hosts.run("login", "sbatch", "--admin-comment=pal1{b=1}", "--wrap", "true", user="alice")
    job = hosts.submit("-n1", "--begin=now+1hour")
    forged = hosts.run("login", "scontrol", "update", f"jobid={job}", "admincomment=pal1{b=1}", user="alice")
    assert done.returncode != 0 and forged.returncode != 0
    assert hosts.fields(job).get("AdminComment", "") == ""
    assert hosts.client("scontrol", "token", "lifespan=60", user="alice").startswith("SLURM_JWT=ey")
    assert hosts.run("login", "scontrol", "token", "username=bob", user="alice").returncode != 0


def test_the_demo_waits_for_a_short_job_and_refuses_beside_a_long_one(hosts: Hosts) -> None:
    waits = (
        "import sys; sys.path.insert(0, '/opt/pal-slurm'); from demo_lib.standing import wait_until_empty as w; w(%d)"
    )
    python = "/opt/pal-slurm/venv/bin/python"
    short = hosts.submit("--gres=gpu:1", wrap="sleep 2")
    done = hosts.run("login", python, "-c", waits % 60)
    assert (done.returncode, hosts.client("squeue", "-h")) == (0, ""), done.stderr
    assert hosts.state(short) in ("", "COMPLETED")
    hosts.submit("--gres=gpu:1", wrap="sleep 600")
    done = hosts.run("login", python, "-c", waits % 1)
    assert done.returncode == 1 and "let them end, or cancel them" in done.stderr


def test_nothing_runs_privileged_and_nothing_secret_is_in_the_image(hosts: Hosts) -> None:
    for host in (*DAEMONS, *hosts.nodes):
        about = hosts.about(host)["HostConfig"]
        assert not about["Privileged"] and not about["CapAdd"] and about["Init"], host
        assert "no-new-privileges:true" in about["SecurityOpt"]
    image = hosts.about("login")["Config"]["Image"]
    find = r"find / -xdev ( -name *.key -o -name *.password -o -name database.url ) -not -path /usr/* -size +0"
    found = docker("run", "--rm", "--entrypoint", "find", image, *find.split()[1:])
    assert found.split() == []


def test_pald_runs_as_its_own_user_who_is_an_operator_and_not_more(hosts: Hosts) -> None:
    owners = hosts.run("pald", "ps", "-C", "pald", "-o", "user=").stdout.split()
    assert set(owners) == {"pal"}
    level = hosts.client("sacctmgr", "-nP", "show", "user", "pal", "format=adminlevel")
    assert level.strip() == "Operator"
