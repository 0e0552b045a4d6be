"""palctl gain: what pal.yaml says counts, what nobody knows is a range, and it says how it knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput, ConfigError

HEAD = "JobID|Submit|Start|End|State|AllocTRES|NodeList|Partition|User|QOS|Timelimit|Comment|JobName"
SLOW = 1.4  # every GPU of n1, for class A; for class C all are alike


def row(i: int, comment: str = "", name: str = "train", seconds: float = 6000.0, node: str = "", **changes: str) -> str:
    start = 1_790_000_000 + 3000 * (i // 2)
    fields = {"user": "ann", "qos": "normal", "state": "COMPLETED"} | changes
    return (
        f"{i + 1}|{start}|{start}|{start + seconds:.0f}|{fields['state']}|gres/gpu=1|{node or f'n{i % 2 + 1}'}|gpu|"
        f"{fields['user']}|{fields['qos']}|04:00:00|{comment}|{name}"
    )


class Site:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.scores = home / "scores.csv"
        rows = [f"n{n},{s},{c},{SLOW if (n, c) == (1, 'A') else 1.0}" for n in (1, 2) for s in range(4) for c in "AC"]
        self.scores.write_text("\n".join(["node,slot,class,score", *rows]) + "\n")

    def run(self, rows: list[str], *words: str, yaml: str | None = None) -> Result:
        (self.home / "month.txt").write_text("\n".join([HEAD, *rows]) + "\n")
        config = []
        if yaml is not None:
            (self.home / "pal.yaml").write_text(f"state_dir: {self.home}\n{yaml}")
            config = ["--config", f"{self.home}/pal.yaml"]
        told = ["gain", "--sacct", f"{self.home}/month.txt", "--gpus-per-node", "4", "--repeat", "2"]
        scores = [] if "--scores" in words else ["--scores", f"{self.scores}"]
        return CliRunner().invoke(palctl, [*config, *told, *scores, *words])

    def report(self, rows: list[str], *words: str, yaml: str | None = None) -> dict[str, Any]:
        done = self.run(rows, "--json", *words, yaml=yaml)
        assert done.exit_code == 0, f"{done.output} {done.exception!r}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


BY_APPS = "apps:\n  mine: {class: A}\n  flat: {class: C}\n"
BY_PATTERNS = BY_APPS + "patterns:\n- {app: mine, job_name: 'tr*'}\n"
OTHER_CLASSES = "classes: {names: [C, A], default: C}\n"


@pytest.mark.parametrize(
    ("comment", "yaml", "unknown", "columns"),
    [
        ("", None, 40, {"A": True, "C": False}),
        ("", BY_APPS, 40, {"A": True, "C": False}),
        ("app:mine", None, 40, {"A": True, "C": False}),
        ("app:mine", BY_APPS, 0, {"": True}),
        ("app:flat", BY_APPS, 0, {"": False}),
        ("app:resnet50", None, 0, {"": True}),
        ("", BY_PATTERNS, 0, {"": True}),
        ("", OTHER_CLASSES, 40, {"C": False, "A": True}),
    ],
)
def test_what_pal_yaml_says_counts_and_what_nobody_says_is_a_range(
    site: Site, comment: str, yaml: str | None, unknown: int, columns: dict[str, bool]
) -> None:
    rows = [row(i, comment) for i in range(40)]
    report = site.report(rows, yaml=yaml)
    assert report["unknown"] == unknown
    saves = {one["unknown_as"]: one["saved_gpu_hours"]["mean"] > 0.1 for one in report["saved"]}
    assert saves == columns and list(saves) == list(columns)
    said = report["assumptions"][0]
    assert said.startswith(f"{40 - unknown} of 40 jobs name an application that is known")
    page = site.run(rows, yaml=yaml).stdout
    assert ("all of class" in page) is (len(columns) == 2)
    assert ("0.0 to 12." in report["verdict"]) is (len(columns) == 2)


def test_a_pal_yaml_that_was_named_and_is_bad_is_an_error(site: Site) -> None:
    done = site.run([row(1)], yaml="clases: {}\n")
    assert isinstance(done.exception, ConfigError) and "classes" in str(done.exception)
    words = ["--config", f"{site.home}/none.yaml", "gain", "--sacct", "x"]
    missing = CliRunner().invoke(palctl, words).exception
    assert isinstance(missing, ConfigError) and "none.yaml: does not exist" in str(missing)


def test_scores_of_gpus_that_accounting_does_not_name_are_told(site: Site) -> None:
    other = site.home / "other.csv"
    other.write_text("node,slot,class,score\n" + "".join(f"x{n},0,A,1.0\n" for n in range(800)))
    done = site.run([row(i) for i in range(8)], "--scores", str(other))
    assert isinstance(done.exception, BadInput)
    assert "node: none of its 800 GPUs is one of accounting's: x0 slot 0 for example" in str(done.exception)
    other.write_text(site.scores.read_text() + "n1,9,A,1.0\nx1,0,A,1.0\n")
    done = site.run([row(i) for i in range(8)], "--scores", str(other))
    assert "2 of 10 GPUs" in done.stderr and "as n1 slot 9" in done.stderr


def test_rows_that_can_not_be_read_are_told_with_their_lines(site: Site) -> None:
    rows = [row(i, "app:resnet50") for i in range(20)]
    rows[3], rows[5] = rows[3].replace("|n2|", "|nobody knows|"), rows[5].replace("gres/gpu=1", "gres/gpu=9999")
    rows[7] = rows[7].replace("|gpu|", "|g|p|u|")
    page = site.run(rows).stdout
    assert page.startswith("17 GPU jobs") and "3 rows of accounting left out" in page
    assert "line 9, Timelimit: 'ann' is not a time limit" in " ".join(page.split())
    for said in ("line 5, NodeList: 'nobody knows' names no nodes", "line 7, NodeList: 9999 GPUs on 1 nodes"):
        assert said in page
    done = site.run([row(i).replace("|n", "|?") for i in range(4)])
    assert isinstance(done.exception, BadInput) and "add NodeList to sacct's -o" in str(done.exception)


Seconds = Callable[[int], float]


@pytest.mark.parametrize(
    ("seconds", "changes", "visible", "said"),
    [
        (
            lambda i: 1000 * (SLOW if i % 2 == 0 else 1.0) * (1 + i % 5 / 100),
            {},
            True,
            "accounting shows it: 40 repeated",
        ),
        (lambda i: 1000 * (1 + i % 5 / 100), {}, False, "not visible in your accounting: 40 repeated jobs in 4 sets"),
        (lambda i: 1000 * (1.0 if i % 2 == 0 else SLOW), {}, False, "not visible in your accounting: 40 repeated"),
        (lambda _: 1000, {"state": "TIMEOUT"}, False, "no jobs of one user, name, size and limit ran on GPUs"),
        (lambda _: 1000, {"name": ""}, False, "no jobs of one user, name, size and limit ran on GPUs"),
        (lambda _: 1000, {"node": "n1"}, False, "no jobs of one user, name, size and limit ran on GPUs"),
    ],
)
def test_it_says_whether_repeated_jobs_ran_slower_on_slow_gpus(
    site: Site, seconds: Seconds, changes: dict[str, Any], visible: bool, said: str
) -> None:
    """Four users' jobs, each of another length."""
    rows = [
        row(i, "app:resnet50", seconds=seconds(i) * (1 + i // 10), user=f"u{i // 10}", **changes) for i in range(40)
    ]
    seen, page = site.report(rows)["seen"], site.run(rows).stdout
    assert said in " ".join(page.split())
    assert (seen["low"] is not None and seen["low"] > 0) is visible
    if visible:
        assert seen["longer"] == pytest.approx(0.1, abs=0.01)
    else:
        assert "The figures rest on the scores alone." in " ".join(page.split())


@pytest.mark.parametrize(
    ("comment", "changes", "yaml", "movable"),
    [
        ("app:resnet50", {}, "", 0),
        ("app:resnet50 pal:move", {}, "", 40),
        ("app:resnet50 pal:move=USR1@30", {}, "", 40),
        ("app:resnet50 pal:move pal:stay", {}, "", 0),
        ("app:resnet50 pal:move pal:off", {}, "", 0),
        ("app:resnet50", {"qos": "preempt"}, "moves: {qos: [preempt]}\n", 40),
        ("app:resnet50 pal:stay", {"qos": "preempt"}, "moves: {qos: [preempt]}\n", 0),
        ("app:resnet50", {}, "moves: {partitions: [gpu]}\n", 40),
    ],
)
def test_moves_count_only_where_pald_may_move(
    site: Site, comment: str, changes: dict[str, Any], yaml: str, movable: int
) -> None:
    (saved,) = site.report([row(i, comment, **changes) for i in range(40)], "--moves", yaml=BY_APPS + yaml)["saved"]
    assert (saved["moving"]["movable"] if saved["moving"] else 0) == movable
