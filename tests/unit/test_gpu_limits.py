"""Nobody has more GPUs than a limit allows by saying pal:share: who is bound by one on GPUs alone has whole ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pal_slurm.daemon.beside.gpu_limits import FIRST_S, GpuLimits
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Hint
from pal_slurm.model.gpu_limits import NOBODY_LIMITED, Unlimited
from pal_slurm.report.why import sentences
from pal_slurm.slurm.commands.gpu_limits import free_qos, free_users, unlimited
from pal_slurm.slurm.commands.run import Commands
from tests.builders import snapshot, waiting
from tests.simpald import House
from tests.unit.test_daemon_sharing import KNOWN, ONE, SHARES, asked, full

HEAD = "Account|User|Par Name|GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxTRES|MaxTRESMins|MaxTRESPerNode"
NAMED = "Account|User|ParentName|GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxTRES|MaxTRESMins|MaxTRESPerNode"


def tree(*rows: str, head: str = HEAD) -> bytes:
    """Rows of `account|user|parent`, then limits in the order of the columns."""
    wide = (row + "|" * (head.count("|") - row.count("|")) for row in rows)
    return "\n".join((head, *wide)).encode()


@pytest.mark.parametrize("head", [HEAD, NAMED])
def test_a_limit_of_an_account_binds_all_below_it_and_one_of_a_user_him_alone(head: str) -> None:
    told = tree(
        "root||", "root|root|", "bio||root|gres/gpu=4", "bio|ada|", "deep||bio", "deep|bob|",
        "phys||root|cpu=100", "phys|eve|", "phys|dan||||gres/gpu:a100=1",
        head=head,
    )  # fmt: skip
    assert free_users(told) == {("root", "root"), ("phys", "eve")}


@pytest.mark.parametrize(
    ("limit", "free"),
    [
        ("", True), ("cpu=4,mem=10G", True), ("gres/gpu=4", False), ("cpu=4,gres/gpu:h100=2", False),
        ("GRES/GPU=4", False), ("gres/gpu=4,gres/shard=4", True), ("gres/gpu:g1=1,gres/shard:g1=1", True),
        ("gres/shard=4", True), ("gres/gpumem=4", True), ("billing=10", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", range(6))
def test_any_limit_that_names_gpus_and_no_parts_of_them_binds(limit: str, free: bool, column: int) -> None:
    assert bool(free_users(tree("root||", "root|ann|" + "|" * (column + 1) + limit))) is free
    head = "Name|Priority|GrpTRES|GrpWall|MaxTRES|MaxTRESPerNode|MaxTRESPU|MinTRES"
    row = "normal|0" + "|" * 6
    fields = row.split("|")
    fields[column + 2 if column != 1 else 7] = limit
    assert (free_qos(f"{head}\n{'|'.join(fields)}\n".encode()) == {"normal"}) is free


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"\n", b"a|b\nc|d\n", tree("root|ann|"), tree("a||b", "b||a", "a|ann|"), tree("a||nowhere", "a|ann|"),
        tree("root||", "a|ann|"), tree("root||") + b"\nroot|ann|\n", b"\xff\xfe|\xff\n|\xff",
    ],
)  # fmt: skip
def test_a_tree_that_is_no_tree_leaves_nobody_free(answer: bytes) -> None:
    assert free_users(answer) == frozenset()


def test_who_is_not_told_of_is_bound_and_nobody_is_where_slurm_holds_nobody_to_limits() -> None:
    free = Unlimited(True, frozenset({("lab", "ann")}), frozenset({"normal"}), frozenset({"gpu"}))
    job = {"account": "lab", "user": "ann", "qos": "normal", "partitions": ("gpu",)}
    assert free.has(waiting(**job)) and free.has(waiting(**job | {"qos": ""}))
    for other in ({"account": "new"}, {"user": "eve"}, {"qos": "x"}, {"qos": "normal,x"}, {"partitions": ("gpu", "x")}):
        assert not free.has(waiting(**job | other)), other
        assert NOBODY_LIMITED.has(waiting(**job | other))


def commands(home: Path, enforce: str, *, limit: str = "") -> Commands:
    """Slurm's, as far as they are asked."""
    answers = {
        "scontrol": f"""case "$2" in
            config) printf 'AccountingStorageEnforce = {enforce}\\nSLURM_VERSION = 26.05.5\\n' ;;
            *) printf 'PartitionName=gpu QoS=N/A\\nPartitionName=few QoS=few\\nPartitionName=big QoS=big\\n' ;;
            esac""",
        "sacctmgr": f"""case "$2" in
            assoc) printf '%s\\n' '{HEAD}' 'root||||||||' 'root|ann|||||||' ;;
            *) printf '%s\\n' 'Name|MaxTRESPU' 'big|' 'few|gres/gpu=1{limit}' ;;
            esac""",
    }  # fmt: skip
    for name, script in answers.items():
        (home / name).write_text(f"#!/bin/sh\n{script}\n")
        (home / name).chmod(0o755)
    return Commands(home)


@pytest.mark.parametrize("enforce", ["none", "associations", "associations,nosteps"])
def test_where_limits_are_not_enforced_nobody_is_asked_for_any(tmp_path: Path, enforce: str) -> None:
    asked_for = commands(tmp_path, enforce)
    (tmp_path / "sacctmgr").unlink()
    assert unlimited(asked_for, "c") == NOBODY_LIMITED


@pytest.mark.parametrize("enforce", ["associations,limits", "associations,limits,qos,safe", "qos", "ALL"])
def test_a_partitions_own_qos_binds_all_in_it(tmp_path: Path, enforce: str) -> None:
    found = unlimited(commands(tmp_path, enforce), "c")
    assert found == Unlimited(True, frozenset({("root", "ann")}), frozenset({"big"}), frozenset({"gpu", "big"}))
    found = unlimited(commands(tmp_path, enforce, limit=",gres/shard=2"), "c")
    assert found.qos == {"big", "few"} and found.partitions == {"gpu", "few", "big"}


@pytest.fixture
def house(tmp_path: Path, sqlite_template: Path) -> Iterator[House]:
    keys: dict[str, Any] = {"count": 1, "shards": 2, "knowledge": KNOWN, "sharing": {"enabled": True}}
    made = House(tmp_path / "h", sqlite_template, **keys)
    yield made
    made.kill()


def limited(house: House, ask: Callable[[], Unlimited]) -> None:
    house.pald.pald.cycle.books.gpu_limits.ask = ask
    house.pald.pald.cycle.books.gpu_limits.ask_anew()


def of(*users: str) -> Unlimited:
    return Unlimited(True, frozenset(("", user) for user in users), frozenset(), frozenset({"gpu"}))


def test_who_is_bound_has_whole_gpus_and_is_told_why(house: House) -> None:
    limited(house, lambda: of("u"))
    first = full(house, shares=2)
    free, bound = (house.submit(*ONE, SHARES, user=user) for user in ("u", "w"))
    house.live(30)
    assert house.state(free) == "RUNNING" and house.where(free) in [house.where(job) for job in first]
    assert house.state(bound) == "PENDING"
    (why,) = house.pald.pald.cycle.books.decisions.of_job(bound)
    assert "has a limit on GPUs (gres/gpu) that names no parts of them" in " ".join(sentences(why))


def test_a_limit_that_is_set_while_a_part_waits_gives_the_whole_gpu_back(house: House) -> None:
    job = house.submit(*ONE, SHARES)
    house.pald.cycle()
    assert asked(house, job).startswith("gres/shard:g")
    limited(house, lambda: of("somebody else"))
    house.pald.cycle()
    assert asked(house, job) == "gres/gpu:1"
    house.live(60)
    assert house.state(job) == "RUNNING" and asked(house, job).startswith("gres/gpu:g")


def test_until_slurm_has_told_nobody_shares_and_what_it_told_last_stands(house: House) -> None:
    def away() -> Unlimited:
        raise SlurmUnavailable("slurmdbd is away")

    limited(house, away)
    early = house.submit(*ONE, SHARES, runs=3000)
    house.live(15)
    assert house.state(early) == "RUNNING" and asked(house, early).startswith("gres/gpu:g")
    (note,) = (note for note in house.pald.pald.notes if "limits" in note)
    assert "until then nobody shares a GPU (slurmdbd is away)" in note
    limited(house, lambda: of("u"))
    house.pald.cycle()
    assert not [note for note in house.pald.pald.notes if "limits" in note]
    limited(house, away)
    late = house.submit(*ONE, SHARES, runs=3000)
    house.live(15)
    assert house.state(late) == "RUNNING" and asked(house, late).startswith("gres/shard:g")
    assert [note for note in house.pald.pald.notes if "those told last stand" in note]


def test_no_cycle_waits_for_slurm_s_answer() -> None:
    """Before the first one pald does, for a moment."""
    answered, begun = Event(), time.monotonic()
    limits = GpuLimits(lambda: NOBODY_LIMITED if answered.wait(30) else of())
    job = waiting(hint=Hint(share=True))
    (seen,) = limits.seen(snapshot(job), 0.0, parts=True).pending
    assert seen.gpus_limited and time.monotonic() - begun < FIRST_S / 2
    answered.set()
    limits.beside.wait()
    (seen,) = limits.seen(snapshot(job), 1.0, parts=True).pending
    assert not seen.gpus_limited
    quick = GpuLimits(lambda: NOBODY_LIMITED)
    quick.begin(0.0)
    assert quick.found is not None
