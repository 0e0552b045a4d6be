"""palctl scores over time: pictures, drift, nights in JSON; rows by node and rack; what was not measured."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.answers import schema
from pal_slurm.cli.palctl import palctl
from pal_slurm.cli.periods import first_night, moment
from pal_slurm.errors import BadInput, SlurmUnavailable
from tests.unit.spools import DAY, document, fleet, put

Palctl = Callable[..., Result]
NIGHTS = 12
GOLDEN = Path(__file__).parents[1] / "golden" / "cli" / "26.05"


def no_slurm(directory: Path) -> None:
    """Commands as they are while slurmctld is away."""
    write_command(directory / "squeue", "echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1")


def write_command(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def recorded_slurm(directory: Path, topology: bool = True) -> None:
    """Commands that answer with what a real slurmctld once said: n1 to n3 with four GPUs each, n3 alone in rack2."""
    write_command(directory / "squeue", "exit 0")
    show = f'''case "$line" in
        "show hostnames "*) echo "${{line#show hostnames }}";;
        "show node") cat {GOLDEN}/show-node | sed "{"" if topology else "s/,rack[0-9]//g"}";;
        "show partition") cat {GOLDEN}/show-partition;;
        "show topology") {f"cat {GOLDEN}/show-topology" if topology else ":"};;
    esac'''
    write_command(
        directory / "scontrol",
        f'case "$*" in *config*) cat {GOLDEN}/show-config; exit;; esac\nwhile read -r line; do {show}; done',
    )


@pytest.fixture
def run(tmp_path: Path) -> Palctl:
    (tmp_path / "spool").mkdir()
    path = tmp_path / "pal.yaml"
    path.write_text(
        f"state_dir: {tmp_path}\nprofile: {{spool: {tmp_path}/spool}}\n"
        f"cluster: {{backend: cli, bin_dir: {tmp_path}/bin}}\nclasses: {{names: [A, B]}}\n"
        "scores: {stale_after_days: 30}\n"
    )
    no_slurm(tmp_path / "bin")

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(palctl, ["--config", str(path), *words])

    assert invoke("db", "upgrade").exit_code == 0
    return invoke


@pytest.fixture
def nights(run: Palctl, tmp_path: Path) -> Palctl:
    """Twelve nights of n1 to n4; n2:1 became 50 % slower in the sixth."""
    truth = fleet(4)
    tonight = time.time() // DAY * DAY - DAY + 7_200
    for ago in range(NIGHTS):
        slow = {("n2", 1): truth["n2", 1] * (1.5 if ago < NIGHTS // 2 else 1.0)}
        for node in ("n1", "n2", "n3", "n4"):
            put(tmp_path / "spool", document(node, {**truth, **slow}, tonight - ago * DAY, seed=ago))
    done = run("ingest")
    assert done.exit_code == 0, done.output
    return run


def rows(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, (done.output, done.exception)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_the_nights_are_a_picture_and_the_drift_is_told(nights: Palctl) -> None:
    head, *body = (line.split() for line in nights("scores", "--since", "30d", "--class", "A").output.splitlines())
    assert head == ["NODE", "SLOT", "MODEL", "A", "A.TREND", "A.DRIFT", "A.SURE"]
    assert len(body) == 16
    by_place = {(cells[0], cells[1]): cells for cells in body}
    moved = by_place["n2", "1"]
    assert len(moved[-3]) == NIGHTS
    assert moved[-3][:3] < moved[-3][-3:] or (moved[-3][0], moved[-3][-1]) == (".", "@")
    assert float(moved[-2]) == pytest.approx(0.5, abs=0.03)
    assert {place for place, cells in by_place.items() if cells[-1] == "yes"} == {("n2", "1")}


def test_json_holds_each_night_with_its_runs(nights: Palctl) -> None:
    found = {(row["node"], row["slot"]): row for row in rows(nights("scores", "--since", "30d", "--json"))}
    moved = found["n2", 1]
    assert len(moved["A.history"]) == NIGHTS
    night, ratio, runs, stalls = moved["A.history"][-1]
    assert (len(night), runs, stalls) == (10, 5, 0)
    assert ratio == pytest.approx(1.5, rel=0.1)
    assert moved["A.history"] == sorted(moved["A.history"])
    assert (moved["A.sure"], found["n1", 0]["A.sure"], moved["A.nights"]) == (True, False, NIGHTS)
    assert (moved["B.history"], moved["B.sure"], moved["B.drift"]) == ([], None, None)
    assert "A.trend" not in moved


def test_a_period_may_begin_at_a_day(nights: Palctl) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 3 * DAY))
    found = rows(nights("scores", "--since", day, "--json"))
    assert {row["A.history"][0][0] for row in found} == {day}
    assert {row["A.nights"] for row in found} == {3}


def test_columns_of_a_period_need_one(nights: Palctl) -> None:
    done = nights("scores", "-o", "node,A.drift")
    assert done.exit_code == 2
    assert "add --since 30d" in done.output
    assert nights("scores", "--since", "5d", "-o", "nodes,A.sure").output.split() == ["NODES", "A.SURE", "n[1-4]", "no"]
    assert "A.drift" in nights("scores", "-o", "help").output


@pytest.mark.parametrize(
    "word", ["", "x", "30", "-3d", "d", "2026-13-01", "2999-01-01", "30d; rm", "\x1b[31m", "9" * 40 + "d"]
)
def test_a_period_that_can_not_be_read_is_refused_with_an_example(nights: Palctl, word: str) -> None:
    done = nights("scores", "--since", word, "--json")
    if not word:  # as if it were left out
        assert "A.history" not in rows(done)[0]
        return
    assert isinstance(done.exception, BadInput)
    assert "30d" in str(done.exception)
    assert str(done.exception).isprintable()


def test_moments_are_ago_or_days_of_the_calendar() -> None:
    now = 1_790_000_000.0
    assert moment("--at", "2d", now) == now - 2 * DAY
    assert moment("--at", " 1w ", now) == now - 7 * DAY
    assert moment("--at", "999999y", now) == 0.0
    assert moment("--at", "2026-03-01T12:00+00:00", now) == 1_772_366_400.0
    assert first_night("--since", "1970-01-11", now) == 10


def test_status_is_as_documented(run: Palctl, tmp_path: Path) -> None:
    """Its type is what is printed; that it fits is looked at in each test that asks for --json."""
    recorded_slurm(tmp_path / "bin")
    assert run("db", "upgrade").exit_code == 0
    done = run("status", "--json")
    told = json.loads(done.output)
    assert {"parts", "same_second"} <= set(told["capabilities"]) and told["nodes"] == 3
    assert set(schema("status")["$defs"]["Status"]["properties"]) == set(told)


def test_outliers_show_since_when(nights: Palctl) -> None:
    (found,) = rows(nights("scores", "--outliers", "--since", "30d", "--json"))
    assert (found["node"], found["slot"], found["sure"], len(found["history"])) == ("n2", 1, True, NIGHTS)
    head = nights("scores", "--outliers", "--since", "30d").output.split("\n")[0].split()
    assert head[-3:] == ["TREND", "DRIFT", "SURE"]


def test_mixtures_that_mean_nothing_are_refused(nights: Palctl) -> None:
    for words in (
        ("--bins", "--outliers"), ("--bins", "--since", "3d"), ("--per", "node", "--stale"), ("--by", "intervals"),
        ("--outliers", "--per", "rack"), ("--never-profiled", "--bins"), ("--per", "planet"),
    ):  # fmt: skip
        assert nights("scores", *words).exit_code == 2, words


# By node and rack ----------------------------------------------------------------------------------------------------


def test_a_node_is_the_mean_and_the_slowest_of_its_gpus(nights: Palctl) -> None:
    by_node = {row["node"]: row for row in rows(nights("scores", "--per", "node", "--since", "30d", "--json"))}
    gpus = [row for row in rows(nights("scores", "--json")) if row["node"] == "n2"]
    slow = by_node["n2"]
    assert (slow["gpus"], slow["A.known"], slow["A.worst_at"], slow["B.known"]) == (4, 4, "n2:1", 0)
    assert slow["A.worst"] == pytest.approx(max(row["A"] for row in gpus))
    assert min(row["A"] for row in gpus) < slow["A"] < slow["A.worst"]
    assert slow["A.history"][0][2] == 20  # runs of four GPUs
    assert slow["A.drift"] == pytest.approx(1.5**0.25 - 1, abs=0.02)
    assert {node for node, row in by_node.items() if row["A.sure"]} == {"n2"}
    assert slow["B"] is None


def test_racks_are_asked_of_slurm(nights: Palctl, tmp_path: Path) -> None:
    recorded_slurm(tmp_path / "bin")
    found = rows(nights("scores", "--per", "rack", "--since", "30d", "--json"))
    assert [(row["rack"], row["nodes"], row["gpus"]) for row in found] == [
        ("rack1", "n[1-2]", 8), ("rack2", "n3", 4), (None, "n4", 4),
    ]  # fmt: skip
    assert [row["A.sure"] for row in found] == [True, False, None]
    assert found[2]["A"] is not None


def test_without_racks_all_nodes_are_one_and_that_is_said(nights: Palctl, tmp_path: Path) -> None:
    recorded_slurm(tmp_path / "bin", topology=False)
    done = nights("scores", "--per", "rack", "--json")
    assert "topology.conf" in done.stderr
    assert [(row["rack"], row["gpus"]) for row in rows(done)] == [("0", 12), (None, 4)]


def test_without_slurm_rows_by_rack_are_an_error_that_says_why(nights: Palctl) -> None:
    done = nights("scores", "--per", "rack")
    assert isinstance(done.exception, SlurmUnavailable)
    assert "--per node" in str(done.exception)
    assert "Unable to contact slurm controller" in str(done.exception)


# What was not measured -----------------------------------------------------------------------------------------------


def test_never_profiled_are_cards_without_scores_and_what_only_slurm_knows(run: Palctl, tmp_path: Path) -> None:
    put(tmp_path / "spool", document("n1", fleet(1), time.time() - 3_600))
    assert run("ingest").exit_code == 0
    alone = run("scores", "--never-profiled", "--json")
    assert "never seen are not listed" in alone.stderr
    assert rows(alone) == []
    recorded_slurm(tmp_path / "bin")
    found = rows(run("scores", "--never-profiled", "--json"))
    assert {(row["node"], row["slot"], row["uuid"]) for row in found} == {
        (n, s, None) for n in ("n2", "n3") for s in range(4)
    }
    assert run("scores", "--never-profiled", "-o", "nodes").output.split() == ["NODES", "n[2-3]"]
    assert len(rows(run("scores", "--never-profiled", "--class", "B", "--json"))) == 12


def test_stale_are_those_whose_scores_do_not_count_any_more(run: Palctl, tmp_path: Path) -> None:
    for node, ago in (("n1", 40), ("n2", 1)):
        put(tmp_path / "spool", document(node, fleet(2), time.time() - ago * DAY))
        assert run("ingest").exit_code == 0
    found = rows(run("scores", "--stale", "--json"))
    assert {row["node"] for row in found} == {"n1"}
    assert all(row["A.age_days"] > 39 and not row["A.known"] for row in found)
    assert run("scores", "--stale", "-o", "nodes").output.split() == ["NODES", "n1"]
    assert "every score that there is counts" in run("scores", "--stale", "--class", "B").output


# Hostile text --------------------------------------------------------------------------------------------------------


def test_no_name_reaches_the_terminal_as_an_escape(run: Palctl, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(
        json.dumps(
            [{"node": "n1", "slot": 0, "uuid": "GPU-1", "model": "\x1b[31mred\u202e", "class": "A", "score": 1.5}]
        )
    )
    run("scores", "import", str(tmp_path / "s.json"))
    for words in (("--per", "node"), ("--since", "3d"), ("--stale",), ("--outliers",), ()):
        done = run("scores", *words)
        assert "\x1b" not in done.output
        assert "\u202e" not in done.output
