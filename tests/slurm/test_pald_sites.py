"""What sites set up, and pald lives with: partitions with limits and tiers, nodes asleep, magnets, GPU names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, plain
from tests.slurm.test_pald_moves import COUNTS, MOVES, logs, moves, steps

Make = Callable[..., Minicluster]
TURNS = pytest.mark.slurm(turns=("26.05", "24.11", "22.05"))


def update(cluster: Minicluster, *words: str) -> None:
    cluster.client("scontrol", "update", *words)


def running(cluster: Minicluster, user: str) -> list[str]:
    return cluster.client("squeue", "-h", "-u", user, "-t", "RUNNING", "-o", "%i").split()


@TURNS
def test_partitions_with_a_limit_or_a_higher_tier_serve_as_without_pald(make_minicluster: Make, tmp_path: Path) -> None:
    preempts = ("--set", "PreemptType=preempt/partition_prio", "--set", "PreemptMode=REQUEUE")
    parts = ("--partitions", "short=n[1-2],owners=n[1-2]")
    cluster = make_minicluster("--nodes", "2", "--gpus", "2", *parts, *preempts)
    update(cluster, "PartitionName=short", "MaxTime=10", "PreemptMode=REQUEUE")
    update(cluster, "PartitionName=gpu", "MaxTime=UNLIMITED", "PreemptMode=REQUEUE")
    update(cluster, "PartitionName=owners", "PriorityTier=10", "PreemptMode=OFF")
    with Pald(cluster, tmp_path) as pald:
        pald.start()
        long = [cluster.submit("--gres=gpu:1", "-p", names, "-t", "60") for names in ("short,gpu", "gpu,short")]
        brief = cluster.submit("--gres=gpu:2", "-p", "short,gpu", "-t", "5")
        for job in (*long, brief):
            cluster.wait_state(job, "RUNNING")
        assert [cluster.fields(job)["Partition"] for job in long] == ["gpu", "gpu"]
        pins = [
            pald.intents(job, EditKind.PIN) for job in (*long, brief)
        ]  # one may find its job changed, and is not sent
        assert [sum(pin.outcome is not Outcome.REFUSED for pin in tried) for tried in pins] == [1, 1, 1]
        guest = cluster.submit("--gres=gpu:2", "-p", "gpu", "-t", "60")
        owner = cluster.submit("--gres=gpu:2", "-p", "owners", "-N1", "-t", "60")
        cluster.wait_state(owner, "RUNNING")
        assert cluster.state(guest) == "PENDING"


@TURNS
def test_nodes_asleep_are_woken_and_magnets_draw_whatever_a_gpu_is_called(
    make_minicluster: Make, tmp_path: Path
) -> None:
    quick = "SlurmctldParameters=power_save_interval=1,power_save_min_interval=0"
    power = ("SuspendProgram=/bin/true", "ResumeProgram=/bin/true", "SuspendTimeout=1", "ResumeTimeout=600", quick)
    sets = [f"--set={word}" for word in (*power, "SuspendTime=86400")]
    cluster = make_minicluster("--nodes=3", "--gpus=2", "--gres=typed", "--models=3090=3", *sets)
    update(cluster, "NodeName=n3", "State=POWER_DOWN")
    told = ("StartTime=now", "Duration=60", "Users=root", "Flags=MAGNETIC")
    with Pald(cluster, tmp_path) as pald:
        pald.start()
        first = cluster.submit("--gres=gpu:3090:2", "-t", "60")
        cluster.wait_state(first, "RUNNING")
        assert len(pald.intents(first, EditKind.PIN)) == 1
        (other,) = {"n1", "n2"} - set(cluster.gpu_indices(first))
        cluster.client("scontrol", "create", "reservation", "ReservationName=course", f"Nodes={other}", *told)
        drawn = cluster.submit("--gres=gpu:3090:2", "-t", "10")
        cluster.wait_state(drawn, "RUNNING")
        assert set(cluster.gpu_indices(drawn)) == {other}
        wait_for(lambda: "POWERED_DOWN" in cluster.client("scontrol", "show", "node", "n3"), "n3 sleeps")
        sleepers = [cluster.submit("--gres=gpu:3090:1", "-t", "60", user=user) for user in ("nobody", "nobody")]
        for job in sleepers:
            cluster.wait_state(job, "CONFIGURING", "RUNNING")
            assert cluster.fields(job)["NodeList"] == "n3"


@TURNS
@pytest.mark.parametrize("limit", ["MaxTRESPerUser", "MaxTRESPerAccount"])
def test_a_user_at_his_limit_keeps_no_free_gpu_from_others_and_goes_on_when_he_may(
    make_minicluster: Make, tmp_path: Path, limit: str
) -> None:
    enforced = ("--set=AccountingStorageEnforce=associations,limits,qos", "--set=AccountingStorageTRES=gres/gpu")
    cluster = make_minicluster("--nodes=4", "--gpus=2", "--dbd", "--users=alice,bob", *enforced)
    sacctmgr = partial(cluster.client, "sacctmgr", "-i")
    sacctmgr("add", "account", "lab", "parent=pal")
    sacctmgr("add", "user", "alice", "account=lab", "DefaultAccount=lab")
    sacctmgr("modify", "qos", "normal", "set", f"{limit}=gres/gpu=2")
    with Pald(cluster, tmp_path) as pald:
        pald.start()
        cluster.submit_many(30, "--gres=gpu:1", "-t", "60", user="alice")
        bob = cluster.submit("--gres=gpu:2", "-t", "60", user="bob")
        cluster.wait_state(bob, "RUNNING")
        pald.wait_cycle()
        undone = [intent.edit.job for intent in pald.ledger() if intent.edit.kind is EditKind.UNPIN]
        assert len(undone) <= 14  # as many as there are GPUs at most, and some; once it was each of hers
        first = running(cluster, "alice")
        cluster.client("scancel", first[0])
        now = set(first)

        def another() -> bool:
            now.update(running(cluster, "alice"))
            return len(now) > len(first)

        wait_for(another, "another of hers runs in its place")


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_job_is_not_moved_while_another_one_waits_for_a_limit_that_both_share(
    make_minicluster: Make, tmp_path: Path
) -> None:
    """Once the other one had its place, and it waited until that one had ended."""
    enforced = ("--set=AccountingStorageEnforce=associations,limits,qos", "--set=AccountingStorageTRES=gres/gpu")
    cluster = make_minicluster("--nodes=4", "--gpus=2", "--dbd", "--users=alice,bob", *enforced)
    cluster.client("sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxTRESPerUser=gres/gpu=2")
    with Pald(cluster, tmp_path, MOVES) as pald:
        assert pald.once() == 0
        pald.scores({"n4:0": 1.0, "n4:1": 1.0}, others=1.6)
        pald.start()
        first = cluster.submit("--gres=gpu:2", "--comment=app:resnet", "-w", "n4", user="bob")
        cluster.wait_state(first, "RUNNING")
        log = logs(cluster, "at-limit")
        words = ("--comment=app:resnet pal:move", "--gres=gpu:2", "-t", "60")
        slow = COUNTS.replace("exit 0", "sleep 2; exit 0")  # time enough for Slurm to start another one
        mover = cluster.submit(*words, wrap=slow.format(log=log), user="alice")
        cluster.wait_state(mover, "RUNNING")
        others = [cluster.submit("--gres=gpu:1", "-t", "60", user="alice")]
        with plain(cluster):
            others += cluster.submit_many(1, "--gres=gpu:1", "-t", "60", user="alice")
        wait_for(lambda: len(steps(log)) > 100, "it has run for so long that a move pays")
        cluster.client("scancel", str(first))
        for _ in range(8):
            pald.wait_cycle()
        assert cluster.fields(mover)["Restarts"] == "0"
        assert [cluster.state(job) for job in others] == ["PENDING", "PENDING"]
        cluster.client("scancel", *map(str, others))
        wait_for(lambda: bool(moves(pald, mover)) and moves(pald, mover)[0].ending is not None, "it was moved")
        assert set(cluster.gpu_indices(mover)) == {"n4"}
