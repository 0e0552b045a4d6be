"""policy.entitlement on a real Slurm: weights come from its fair-share tree, who is owed most starts first."""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald

SETTINGS = {
    "cluster.models": ["v100", "h100"],
    "apps": {"fast": {"class": "A", "base": {"v100": 0.4, "h100": 0.1}}},
    "pools.dearer": "ok",
    "policy.entitlement": "gavel/hierarchical",
}
ASKS = ("--gres=gpu:1", "--comment=app:fast", "-t", "60")


def why(pald: Pald, job: int) -> str:
    """Nothing, until pald has seen it."""
    return pald.answered("why", str(job)).stdout


@pytest.mark.slurm("26.05", slow=("24.11", "22.05"))
def test_the_account_with_nine_tenths_of_the_shares_comes_before_one_that_asked_sooner(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--models", "v100=1,h100=1", "--nodes", "2", "--gpus", "2", "--dbd")
    for words in (
        ("add", "account", "big", "parent=pal", "fairshare=9"),
        ("add", "account", "small", "parent=pal", "fairshare=1"),
        ("add", "user", "root", "account=big"), ("add", "user", "root", "account=small"),
    ):  # fmt: skip
        cluster.client("sacctmgr", "-i", *words)
    with Pald(cluster, tmp_path, SETTINGS) as pald:
        pald.start()
        takes = [cluster.submit("--gres=gpu:1", "-A", "pal") for _ in range(4)]
        for job in takes:
            cluster.wait_state(job, "RUNNING", within=60)
        small = [cluster.submit(*ASKS, "-A", "small") for _ in range(6)]
        big = cluster.submit(*ASKS, "-A", "big")
        wait_for(lambda: "of its time on" in why(pald, big), "pald says what it is owed")
        told = why(pald, big)
        assert "By gavel/hierarchical it is owed" in told and "big weighs" in told, told
        part = {job: float(why(pald, job).partition(" weighs ")[2].split()[0].rstrip(".")) for job in (big, small[0])}
        assert part[big] == pytest.approx(9 * part[small[0]], rel=0.01)
        assert {cluster.state(job) for job in (*small, big)} == {"PENDING"}
        cluster.client("scancel", str(takes[0]))
        wait_for(lambda: bool(pald.intents(big, EditKind.PIN)), "it is placed")
        # Slurm may be late with the GPUs of a job that was cancelled: then the pin is taken back, and others try.
        others = [intent.id for job in small for intent in pald.intents(job, EditKind.PIN)]
        assert pald.intents(big, EditKind.PIN)[0].id < min(others, default=math.inf)
        weighs = why(pald, big).partition(" big weighs ")[2].split(".")[:2]
        with cluster.stopped("slurmdbd"):
            pald.send(signal.SIGHUP)
            wait_for(lambda: "does not tell the weights of accounts; those of" in pald.palctl("status"), "pald says so")
            late = cluster.submit(*ASKS, "-A", "big")
            wait_for(lambda: "Slurm has not told since" in why(pald, late), "and why says it too")
            told = why(pald, late)
            assert told.partition(" big weighs ")[2].startswith(".".join(weighs)[:4]), told  # as before
        pald.send(signal.SIGHUP)
        wait_for(lambda: "weights of accounts" not in pald.palctl("status"), "Slurm tells them again")


@pytest.mark.slurm("26.05", slow=("24.11", "22.05"))
def test_a_flood_of_forty_lets_a_newcomer_in_and_a_job_that_was_held_has_waited_for_nothing(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--models", "v100=1,h100=1", "--nodes", "2", "--gpus", "2", "--users", "ann,bob,eve")
    with Pald(cluster, tmp_path, SETTINGS) as pald:
        pald.start()
        held, since = cluster.submit(*ASKS, "--hold", user="eve"), time.time()
        flood = [cluster.submit(*ASKS, user="ann") for _ in range(40)]
        for job in flood[:4]:
            cluster.wait_state(job, "RUNNING", within=60)
        few = [cluster.submit(*ASKS, user="bob") for _ in range(2)]
        wait_for(lambda: "bob is owed" in why(pald, few[0]), "pald says what he is owed")
        cluster.client("scancel", str(flood[0]))
        # before 36 that came sooner; the second one where Slurm was too busy to start the first by its pin
        wait_for(lambda: "RUNNING" in map(cluster.state, few), "one of his jobs runs")
        assert sorted(map(cluster.state, few)) == ["PENDING", "RUNNING"]
        assert {cluster.state(job) for job in flood[4:]} == {"PENDING"}
        wait_for(lambda: time.time() - since > 10, "she was held for longer than what a debt is told within")
        released = time.time()
        cluster.client("scontrol", "release", str(held))
        wait_for(lambda: "eve is owed" in why(pald, held), "what she is owed")
        debt = re.search(r"([0-9]+) s of its best GPUs", why(pald, held))
        assert debt is not None and float(debt[1]) <= time.time() - released + 2 < time.time() - since


@pytest.mark.slurm("26.05", slow=("24.11", "22.05"))
def test_without_slurmdbd_accounts_count_the_same_and_jobs_start_as_ever(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    cluster = make_minicluster("--models", "v100=1,h100=1", "--nodes", "2", "--gpus", "2")
    with Pald(cluster, tmp_path, SETTINGS | {"policy.entitlement": "gavel/cost-slo"}) as pald:
        pald.start()
        jobs = [cluster.submit(*ASKS, "-A", name) for name in ("one", "two")]
        for job in jobs:
            cluster.wait_state(job, "RUNNING", within=60)
        takes = [cluster.submit("--gres=gpu:1") for _ in range(2)]
        for job in takes:
            cluster.wait_state(job, "RUNNING", within=60)
        late = cluster.submit(*ASKS, "-A", "two", "--deadline=now+2hours")
        wait_for(lambda: "of its time on" in why(pald, late), "pald says what it is owed")
        assert "two weighs 1 (Slurm tells no weights)" in why(pald, late)
        assert "all accounts count the same" in pald.palctl("status")
        cluster.client("scancel", *map(str, takes))
        cluster.wait_state(late, "RUNNING", within=60)
