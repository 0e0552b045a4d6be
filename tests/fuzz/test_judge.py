"""The judge shares nothing with what it judges, and knows sbatch's options by itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.fuzz.history import Event, History, Record, Started, Submitted
from tests.fuzz.judge import judge
from tests.fuzz.judge.facts import hosts, numbers, seconds_later
from tests.fuzz.script import SETTINGS

ROOM = Path(__file__).parent
ALONE = (
    "tests.fuzz.history",
    "tests.fuzz.judge",
    "__future__",
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "re",
    "statistics",
)


@pytest.mark.parametrize("path", [ROOM / "history.py", *(ROOM / "judge").glob("*.py")], ids=lambda path: path.name)
def test_it_imports_nothing_of_ours(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert all(name.startswith(ALONE) for name in names), names


def test_it_reads_nodes_tasks_and_begin_times() -> None:
    assert hosts("n1,n[3-4],n7") == {"n1", "n3", "n4", "n7"}
    assert numbers("1,3-5") == {1, 3, 4, 5}
    assert seconds_later(("--gpus=1", "--begin=now+2minutes")) == 120.0


def waiting(line: int) -> Record:
    return Record(
        (line, None), 1, "PENDING", 0.0, False, False, (), True, "", "", "", "gpu", 1, 0, "", "gpu:1", "", "", 1, 1, 5,
        "", "", 0, 0.0,
    )  # fmt: skip


@pytest.mark.parametrize("first", [0, 1])
def test_who_was_submitted_first_is_first_whatever_his_line(first: int) -> None:
    came, later = waiting(first), waiting(1 - first)
    events: list[Event] = [Submitted(5.0, came), Submitted(9.0, later)]
    options = dict.fromkeys((0, 1), ("--gpus=1",))
    in_order = History({"n1": 4}, SETTINGS, options, [*events, Started(6.0, came, ()), Started(40.0, later, ())])
    assert judge(in_order) == []
    overtaken = History({"n1": 4}, SETTINGS, options, [*events, Started(10.0, later, ()), Started(40.0, came, ())])
    assert [(verdict.rule, verdict.job) for verdict in judge(overtaken)] == [("overtaken", (first, None))]


def test_a_job_that_started_only_without_pald_is_a_broken_promise() -> None:
    record = waiting(0)
    history = History({"n1": 4}, SETTINGS, {0: ("--gpus=1",)}, [Submitted(0.0, record)], alone={(0, None): 1.0})
    history.left.append(record)
    assert [verdict.rule for verdict in judge(history)] == ["never-started"]
    history.events.append(Started(2.0, record, ()))
    assert judge(history) == []
