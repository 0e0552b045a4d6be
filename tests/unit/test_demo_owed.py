"""The demo's table of what accounts were owed and had: by hand, on two GPUs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from demo_lib.owed import by_account, owed_and_had
from demo_lib.run import Ran
from demo_lib.workload import DemoJob

GPUS, MODEL_OF = {"old": 1, "new": 1}, {"n1": "old", "n2": "new"}
BASES = (("old", 0.2), ("new", 0.1))


def ran(number: int, account: str, submitted: float, started: float, ended: float, node: str) -> Ran:
    job = DemoJob(number, submitted, "resnet", 1, 100, bases=BASES, account=account)
    return Ran(job, submitted, ended, ended - started, ended - started, ((node, "0"),))


def test_who_waits_is_owed_half_of_what_there_is_and_had_what_his_jobs_ran_on() -> None:
    many = [ran(1, "a", 0, 0, 20, "n2"), ran(2, "a", 0, 0, 40, "n1"), ran(3, "a", 0, 20, 30, "n2")]
    one = ran(4, "b", 10, 30, 40, "n2")
    owed, had = owed_and_had([*many, one], GPUS, MODEL_OF)
    # b waits from 10 to 30: two GPUs do 1.5 of the new one's work, its one job is owed as much as it can use of half
    assert owed["b"] == pytest.approx(20 * 0.75) and had["b"] == 0.0
    # a waits from 0 to 20: alone at first, then with b; it had both GPUs all the time
    assert owed["a"] == pytest.approx(10 * 1.5 + 10 * 0.75) and had["a"] == pytest.approx(20 * 1.5)


def test_an_account_that_never_waited_is_owed_nothing_more() -> None:
    table = by_account({"stock": [ran(1, "a", 0, 0, 20, "n2")]}, GPUS, MODEL_OF)
    assert table.row_count == 1 and list(table.columns[-1].cells) == ["-"]
