"""Slurm's fair-share tree, QOS and deadlines as sacctmgr and squeue print them; what can't be read costs nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.model import FairShares
from pal_slurm.slurm.commands.run import Commands
from pal_slurm.slurm.commands.shares import fair_shares, read_deadlines, read_qos, read_tree
from tests.builders import waiting

TREE = b"""root|||1
root|root||1
bio||root|3
bio|ada||parent
phys||root|1
theory||phys|1
theory|bob||3
theory|eve||1
lab||phys|4
"""


def test_an_accounts_part_is_the_product_of_its_shares_down_the_tree() -> None:
    told = read_tree(TREE)
    assert told.accounts == pytest.approx({"bio": 0.75, "phys": 0.25, "theory": 0.05, "lab": 0.2})
    assert told.users["theory", "bob"] == pytest.approx(1.5) and told.users["theory", "eve"] == pytest.approx(0.5)
    assert told.users["bio", "ada"] == 1.0  # `parent`: as one with the account


def test_a_job_weighs_what_its_account_its_user_and_its_qos_do() -> None:
    told = FairShares(read_tree(TREE).accounts, read_tree(TREE).users, {"urgent": 2.0})
    job = waiting(account="theory", user="bob", qos="urgent")
    assert told.of_account(job) == pytest.approx(0.05) and told.inside(job) == pytest.approx(3.0)
    assert told.of_account(waiting(account="new")) == pytest.approx(0.05)  # like the smallest
    assert FairShares().of_account(job) == FairShares().inside(job) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"\n", b"a|b\n", b"a|||x\n||||\n", b"ring||loop|1\nloop||ring|1\n", b"zero||root|0\n",
        b"lost||nowhere|3\n", b"\xff\xfe||root|1\n", b"a||root|-5\n", b"a|b|c|d|e|f\n",
    ],
)  # fmt: skip
def test_a_tree_that_is_no_tree_makes_nobody_heavy(answer: bytes) -> None:
    assert all(0 <= part <= 1 for part in read_tree(answer).accounts.values())
    assert not {"ring", "loop", "lost"} & read_tree(answer).accounts.keys()


def test_a_qos_weighs_up_to_twice_as_much_by_its_priority() -> None:
    assert read_qos(b"normal|0\nhigh|1000\nmid|250\nbad|x\n|9\n") == {"normal": 1.0, "high": 2.0, "mid": 1.25}
    assert read_qos(b"normal|0\n") == read_qos(b"") == {}


def test_deadlines_are_those_that_slurm_tells() -> None:
    told = b"12          1800000000              \n13          N/A                     \nx           1\n14          0\n"
    assert read_deadlines(told) == {12: 1_800_000_000}


def test_without_slurmdbd_no_weights_are_told_and_deadlines_stand(tmp_path: Path) -> None:
    for name, body in (("sacctmgr", "echo refused >&2; exit 1"), ("squeue", "printf '%-12s%-24s\\n' 7 1800000000")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    told = FairShares(deadlines={7: 1_800_000_000}, untold="sacctmgr failed: refused")
    assert fair_shares(Commands(tmp_path), "c") == told
