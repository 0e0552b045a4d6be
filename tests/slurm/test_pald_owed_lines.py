"""What jobs are owed on a mixed cluster: whatever a user writes he gets, with pald and without (P2)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_mixed import ALL, SETTINGS, A, Got, H, Line, V, fits, got

KEPT = "in a reservation"
LINES = {
    "a model": Line(("--gres=gpu:a100:1",), 1, A),
    "one model or another": Line(("--gpus=1", "-C", "v100|h100"), 1, V | H),
    "one model for all nodes": Line(("-N2", "--gpus-per-node=1", "-C", "[v100|a100]"), 2, V | A),
    "preferred": Line(("--gres=gpu:1", "--prefer=a100", "--comment=app:fast"), 1, ALL, A),
    "a list of partitions": Line(("-p", "late,early", "--gres=gpu:1"), 1, V | H),
    "two of four tasks at once": Line(("--array=0-3%2", "--gpus=1", "--comment=app:fast"), 2, ALL, V | A),
    "components": Line(("--gres=gpu:a100:1", ":", "--gres=gpu:v100:1"), 1, A),
    "a GPU for each task": Line(("-n2", "--gpus-per-task=1"), 2, ALL, V | A),
    "the whole node": Line(("--exclusive", "--gres=gpu:1", "-C", "h100"), 4, H),
    KEPT: Line(("--reservation=kept", "--gpus=1"), 1, {"n1"}),
    "a QOS of one GPU": Line(("--qos=one", "--gpus=1"), 1, ALL, V | A),
    "by a time that has passed": Line(("--gpus=1", "--comment=app:fast pal:by=2020-01-01T00:00"), 1, ALL, V | A),
    "by a time to come": Line(("--gpus=1", "-C", "v100", "--comment=app:fast pal:by=2099-01-01T00:00"), 1, V),
    "by a time that is none": Line(("--gpus=1", "--comment=app:fast pal:by=2026-13-45T99:99"), 1, ALL, V | A),
    "the same model again, and one by name": Line(("--gres=gpu:v100:1", "--comment=app:fast pal:same"), 1, V),
    "dearer": Line(("--gpus=1", "-C", "a100|h100", "--comment=app:fast pal:dearer"), 1, A | H),
    "that QOS, a model": Line(("--qos=one", "--gres=gpu:h100:1"), 1, H),
    "with a deadline": Line(("--gpus=1", "-t", "10", "--deadline=now+2hours"), 1, ALL, V | A),
    "begins later": Line(("--gpus=a100:1", "--begin=now+5"), 1, A),
    "one or two nodes": Line(("-N1-2", "--gpus=2", "-C", "a100"), 2, A),
    "three, and nice": Line(("--gpus=3", "-N1", "--nice=100"), 3, ALL, V | A),
    "not there": Line(("-x", "n[1-4]", "--gres=gpu:1", "-A", "pal"), 1, H),
}
OWED = SETTINGS | {"policy.entitlement": "gavel/cost-slo"}


@pytest.fixture
def limited(release: str) -> Iterator[Minicluster]:
    """With accounts, a QOS whose users may have one GPU, and a reservation of the first node."""
    cluster = Minicluster.up(
        f"t{os.getpid()}-owed-{release}", release, "--nodes", "6", "--models", "v100=2,a100=2,h100=2", "--rack-size",
        "2", "--partitions", "early=n[1-2],late=n[5-6]", "--dbd",
        "--set", "AccountingStorageEnforce=limits,qos",
    )  # fmt: skip
    try:
        for words in (
            ("add", "qos", "one", "MaxTRESPerUser=gres/gpu=1"), ("modify", "user", "root", "set", "qos+=one"),
        ):  # fmt: skip
            cluster.client("sacctmgr", "-i", *words)
        yield cluster
    finally:
        cluster.down()


def all_of(cluster: Minicluster) -> Mapping[str, Got]:
    """The reservation stands only while its line is looked at: others need the node."""
    found = dict(got(cluster, {name: line for name, line in LINES.items() if name != KEPT}))
    words = "reservationname=kept users=root nodes=n1 starttime=now duration=60 flags=ignore_jobs"
    cluster.client("scontrol", "create", *words.split())
    found.update(got(cluster, {KEPT: LINES[KEPT]}))
    cluster.client("scontrol", "delete", "ReservationName=kept")
    return found


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_twenty_two_lines_get_the_same_with_what_is_owed_and_without_pald(limited: Minicluster, tmp_path: Path) -> None:
    without = all_of(limited)
    with Pald(limited, tmp_path, OWED) as pald:
        pald.start()
        with_pald = all_of(limited)
        # Of two jobs of that QOS one runs, and the other, which Slurm bars, has no part and keeps nobody waiting.
        jobs = [limited.submit("--qos=one", "--gpus=1") for _ in range(2)]
        wait_for(lambda: "RUNNING" in {limited.state(job) for job in jobs}, "one of them runs")
        other = limited.submit("--gpus=1")
        limited.wait_state(other, "RUNNING", within=60)
        pald.wait_cycle()
        assert {limited.state(job) for job in jobs} == {"RUNNING", "PENDING"}
    wrong = {name: its for name, its in without.items() if not fits(LINES[name], its, LINES[name].nodes)}
    assert wrong == {}, "Slurm alone"
    allowed = {name: line.nodes if line.pald is None else line.pald for name, line in LINES.items()}
    wrong = {name: its for name, its in with_pald.items() if not fits(LINES[name], its, allowed[name])}
    assert wrong == {}, f"{limited.release}, with pald"
    other_bill = {name: (without[name], its) for name, its in with_pald.items() if without[name][2:] != its[2:]}
    assert other_bill == {}, f"{limited.release}: CPUs and what is billed, without pald and with"
