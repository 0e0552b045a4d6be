"""alice asks of her job and of bob's, with palctl, at pald's socket; and the page beside a real cluster shows both."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.minicluster import TOOL, Minicluster, wait_for

Make = Callable[..., Minicluster]


def asks(cluster: Minicluster, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(TOOL), "exec", "--name", cluster.name, "--user", user, "--", "palctl", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_alice_asks_of_her_job_and_of_bob_s(make_minicluster: Make) -> None:
    cluster = make_minicluster("--nodes", "2", "--pald", "--page", "--users", "alice,bob")
    runs = cluster.submit("--pal-app=pagerank", "--gres=gpu:2", user="alice")
    his = cluster.submit("--pal-app=bert", "--gres=gpu:4", user="bob")
    cluster.wait_state(runs, "RUNNING")
    cluster.wait_state(his, "RUNNING")
    his_next = cluster.submit("--pal-app=bert", "--gres=gpu:4", user="bob")
    waits = cluster.submit("--pal-app=resnet", "--gres=gpu:4", user="alice")
    wait_for(
        lambda: "1 job is ahead of it" in asks(cluster, "alice", "why", str(waits)).stdout, "she is told who is ahead"
    )
    wait_for(lambda: "as pinned" in asks(cluster, "alice", "why", str(runs)).stdout, "and what her other job got")

    of_his = [asks(cluster, "alice", "why", str(job)) for job in (his, his_next, 999)]
    assert [done.returncode for done in of_his] == [65, 65, 65]
    assert {done.stdout for done in of_his} == {""}
    assert all("of yours is known" in done.stderr for done in of_his)
    mine = json.loads(asks(cluster, "alice", "jobs", "--json").stdout)
    assert {row["job"] for row in mine} == {runs, waits}
    wait_for(lambda: "as pinned" in asks(cluster, "bob", "why", str(his)).stdout, "bob is told of his")

    secret = [asks(cluster, "alice", *words) for words in (("status",), ("scores",), ("undo", "--all"), ("pause",))]
    assert all(done.returncode != 0 for done in secret)
    base = json.loads((cluster.dir / "facts.json").read_text())["base_port"]
    wait_for(lambda: "alice" in _page(base + 3, "queue"), "the page shows whose job waits")
    assert f'href="./job/{waits}"' in _page(base + 3, "queue")
    assert "Placements weighed" in _page(base + 3, f"job/{runs}")
    assert (cluster.dir / "run" / "now.json").stat().st_mode & 0o777 == 0o640
    assert Path(cluster.dir / "run" / "users.sock").stat().st_mode & 0o777 == 0o666


def _page(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_where_users_look_a_waiting_job_says_whom_to_ask(make_minicluster: Make) -> None:
    """The words come with the mark, at submission: no edit of ours, and Slurm and pald read the mark as before."""
    said = "waits for pal-slurm (BeginTime) to choose GPUs: palctl why JOBID"
    cluster = make_minicluster("--nodes", "1", "--pald", "--users", "alice")
    settings = cluster.etc / "pal_lua.conf"
    settings.write_text(settings.read_text() + f"tell = {said}\n")
    runs = cluster.submit("--pal-app=resnet", "--gres=gpu:4", user="alice")
    cluster.wait_state(runs, "RUNNING")
    waits = cluster.submit("--pal-app=resnet", "--gres=gpu:4", user="alice")
    record = cluster.client("scontrol", "show", "job", str(waits), user="alice")
    [told] = [line.strip() for line in record.splitlines() if "AdminComment=" in line]  # 22.05 ends it with a blank
    assert told.startswith("AdminComment=pal1{b=") and told.endswith(f"}} {said}")
    wait_for(lambda: "0 jobs are ahead of it" in asks(cluster, "alice", "why", str(waits)).stdout, "it is pald's")
    cluster.client("scancel", str(runs))
    cluster.wait_state(waits, "RUNNING")
    wait_for(lambda: "as pinned" in asks(cluster, "alice", "why", str(waits)).stdout, "it was placed")
