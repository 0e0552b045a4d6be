"""palctl: every command, its words, its JSON and its exit code."""

from __future__ import annotations

import json
import os
import pwd
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import load
from pal_slurm.daemon.pausing import paused
from pal_slurm.errors import BadInput, StoreError
from pal_slurm.store import JobOutcome, OutcomeRepo, Switches, open_store

WHO = pwd.getpwuid(os.getuid()).pw_name
Palctl = Callable[..., Result]
SCORES = "node,slot,uuid,model,class,score\n" + "".join(
    f"n{n},{s},GPU-{n}-{s},v100,{c},{score}\n"
    for n in (1, 2, 3)
    for s in (0, 1)
    for c, score in (("A", 1.5 if (n, s) == (3, 1) else 1.0 + s / 10), ("B", 1.0))
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\napps:\n  resnet: {{class: A}}\n")
    return path


@pytest.fixture
def run(config: Path) -> Palctl:
    def invoke(*words: str) -> Result:
        return CliRunner().invoke(palctl, ["--config", str(config), *words])

    return invoke


@pytest.fixture
def with_scores(run: Palctl, tmp_path: Path) -> Palctl:
    (tmp_path / "s.csv").write_text(SCORES)
    assert run("db", "upgrade").exit_code == 0
    assert run("scores", "import", str(tmp_path / "s.csv")).exit_code == 0
    return run


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(group, click.Group):
        return [path]
    context = click.Context(group)
    found = [path] if path else []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize("path", commands(palctl), ids=" ".join)
def test_every_command_has_help_and_stands_in_the_docs(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(palctl, [*path, "--help"])
    assert result.exit_code == 0
    assert len(result.output.split("\n\n")[1].strip()) > 20
    assert f"palctl {' '.join(path)}" in (Path(__file__).parents[2] / "docs" / "palctl.md").read_text()


def test_help_loads_neither_database_nor_numpy() -> None:
    code = "import sys\nfrom pal_slurm.cli.palctl import palctl\n"
    code += "try: palctl(['--help'])\nexcept SystemExit: pass\n"
    code += "print([m for m in ('numpy', 'sqlalchemy', 'alembic', 'msgspec', 'yaml', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_error_is_a_sentence_and_an_exit_code_and_no_traceback(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from pal_slurm.cli.palctl import main; main()"]
    done = subprocess.run(
        [*words, "--config", str(tmp_path / "none"), "scores"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 78
    assert done.stderr.startswith("palctl: ")
    assert "palctl config sample" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(with_scores: Palctl, config: Path) -> None:
    code = "from pal_slurm.cli.palctl import main; main()"
    command = f"{sys.executable} -c '{code}' --config {config} scores --json | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


# Config --------------------------------------------------------------------------------------------------------------


def test_config_check_names_every_mistake_and_ends_with_78(run: Palctl, config: Path) -> None:
    assert run("config", "check").exit_code == 0
    config.write_text("actuator: pins\nlaese: 1\n")
    result = run("config", "check")
    assert result.exit_code == 78
    assert "pal.yaml:1: actuator" in result.output
    assert "pal.yaml:2: laese" in result.output
    told = json.loads(run("config", "check", "--json").output)
    assert [(fault["line"], fault["key"]) for fault in told] == [(1, "actuator"), (2, "laese")]


def test_config_show_shows_what_is_in_force_and_no_password(run: Palctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAL_DATABASE_URL", "postgresql://pal:s3cret@db/pal")
    result = run("config", "show")
    assert "database.url: postgresql://pal:***@db/pal" in result.output
    assert "lease.length_s: 20" in result.output
    assert "s3cret" not in result.output + run("config", "show", "--json").output


def test_config_explain_knows_keys_and_near_misses(run: Palctl) -> None:
    assert "unit: s" in run("config", "explain", "lease.length_s").output
    assert "lease.length_s" in str(run("config", "explain", "lease.lenght_s").exception)


# Database ------------------------------------------------------------------------------------------------------------


def test_db_upgrade_makes_a_database_and_check_counts_its_rows(run: Palctl) -> None:
    assert "there is no database" in str(run("db", "check").exception)
    assert "made, schema" in run("db", "upgrade").output
    assert "already" in run("db", "upgrade").output
    assert json.loads(run("db", "check", "--json").output)["rows"]["runs"] == 0


def test_without_a_database_every_command_says_what_to_do(run: Palctl) -> None:
    for words in (["scores"], ["jobs"], ["why", "1"], ["apps"]):
        result = run(*words)
        assert isinstance(result.exception, StoreError), words
        assert "palctl db upgrade" in str(result.exception)


# Scores --------------------------------------------------------------------------------------------------------------


def test_scores_are_a_table_with_bins(with_scores: Palctl) -> None:
    head, *body = with_scores("scores").output.splitlines()
    assert head.split() == ["NODE", "SLOT", "MODEL", "A", "A.BIN", "B", "B.BIN", "C", "C.BIN"]
    assert body[-1].split() == ["n3", "1", "v100", "1.500", "2", "1.000", "0", "-", "0"]
    assert len(body) == 6


def test_equal_rows_are_folded_to_node_sets(with_scores: Palctl) -> None:
    lines = with_scores("scores", "-o", "nodes,slot,A.bin").output.splitlines()
    assert [line.split() for line in lines[1:]] == [["n[1-3]", "0", "0"], ["n[1-2]", "1", "1"], ["n3", "1", "2"]]


def test_bins_tell_how_many_gpus_count_as_equal_and_where(with_scores: Palctl) -> None:
    rows = json.loads(with_scores("scores", "--bins", "--class", "A", "--json").output)
    assert [(r["bin"], r["gpus"], r["where"]) for r in rows] == [
        (0, 3, "n[1-3]:g0"),
        (1, 2, "n[1-2]:g1"),
        (2, 1, "n3:g1"),
    ]
    unknown = json.loads(with_scores("scores", "--bins", "--class", "C", "--json").output)
    assert [(r["bin"], r["gpus"]) for r in unknown] == [(None, 6)]


def test_json_holds_every_column_and_says_what_is_known(with_scores: Palctl) -> None:
    rows = json.loads(with_scores("scores", "--json").output)
    assert (rows[0]["uuid"], rows[0]["A"], rows[0]["A.known"], rows[0]["C.known"]) == ("GPU-1-0", 1.0, True, False)


def test_an_unknown_column_is_refused_with_the_nearest_one(with_scores: Palctl) -> None:
    result = with_scores("scores", "-o", "nod")
    assert result.exit_code == 2
    assert "did you mean 'node'" in result.output
    assert "A.ci_low" in with_scores("scores", "-o", "help").output


def test_an_empty_store_says_how_to_begin(run: Palctl) -> None:
    run("db", "upgrade")
    assert "palctl scores import FILE" in run("scores").output
    assert json.loads(run("scores", "--json").output) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("jobz",), "no command 'jobz'; did you mean 'jobs'?"),
        (("undoo", "--all"), "did you mean 'undo'?"),
        (("xyzzy",), "no command 'xyzzy'; there are: alerts, apps, config,"),
        (("status", "--jsn"), "--json"),
    ],
)
def test_a_command_that_is_none_is_answered_with_the_nearest(run: Palctl, words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_output_into_a_file_has_no_colour(with_scores: Palctl) -> None:
    assert "\x1b" not in with_scores("scores").output


# Apps ----------------------------------------------------------------------------------------------------------------


def test_apps_are_set_and_listed_and_the_config_wins(run: Palctl) -> None:
    run("db", "upgrade")
    assert run("apps", "set", "bert=B", "vgg=C").exit_code == 0
    assert "pal.yaml wins" in run("apps", "set", "resnet=C").output
    rows = json.loads(run("apps", "list", "--json").output)
    assert [(r["app"], r["class"], r["source"]) for r in rows] == [
        ("bert", "B", "admin"),
        ("resnet", "A", "pal.yaml"),
        ("vgg", "C", "admin"),
    ]
    assert "bert" in run("apps").output


@pytest.mark.parametrize("pair", ["bert", "bert=Z", "be rt=A", "=A", "bert=", "\x1b[31m=A", "a" * 65 + "=A"])
def test_a_pair_that_is_no_name_and_class_is_refused_whole(run: Palctl, pair: str) -> None:
    run("db", "upgrade")
    result = run("apps", "set", "good=A", pair)
    assert isinstance(result.exception, BadInput)
    assert str(result.exception).isprintable()
    assert "good" not in run("apps", "list").output


# Pause ---------------------------------------------------------------------------------------------------------------


def test_pause_stands_in_file_and_store_until_resume(run: Palctl, config: Path, tmp_path: Path) -> None:
    run("db", "upgrade")
    assert run("pause", "--reason", "new driver").exit_code == 0
    settings = load(config)
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    for opened in (Switches(store), None):
        pause = paused(settings, opened)
        assert pause is not None
        assert pause.reason == f"new driver (by {WHO})"
        assert re.fullmatch(r"since [0-9]{4}-[0-9 :-]{14}: new driver \(by \w+\)", pause.told)
        assert abs(pause.since - time.time()) < 600
    Path(settings.pause_file()).unlink()
    assert paused(settings, Switches(store)) is not None
    assert "next cycle" in run("resume").output
    assert paused(settings, Switches(store)) is None
    assert "was not paused" in run("resume").output
    store.close()


def test_a_pause_without_a_reason_is_one(run: Palctl, config: Path, tmp_path: Path) -> None:
    run("db", "upgrade")
    assert run("pause", "--reason", "").exit_code == 0
    settings = load(config)
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    pause = Switches(store).paused()
    store.close()
    assert pause is not None and pause.reason == f"no reason given (by {WHO})"
    Path(settings.pause_file()).write_text("")  # as `touch` makes it
    pause = paused(settings, None)
    assert pause is not None and pause.reason == "no reason given"


def test_a_pause_by_root_can_be_read_by_pald_whatever_roots_umask(run: Palctl, config: Path) -> None:
    before = os.umask(0o077)
    try:
        run("pause")
    finally:
        os.umask(before)
    assert Path(load(config).pause_file()).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "device"])
def test_root_writes_through_nothing_that_stands_in_the_pause_file_s_place(
    run: Palctl, config: Path, tmp_path: Path, kind: str
) -> None:
    """The directory is pald's user's, who may be a thief: what is linked there is neither written nor chmodded."""
    target, path = tmp_path / "root's", Path(load(config).pause_file())
    target.write_text("kept")
    target.chmod(0o600)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "hard link":
        path.hardlink_to(target)
    else:
        path.symlink_to({"link": target, "device": Path("/dev/zero")}.get(kind, tmp_path / "none"))
    assert paused(load(config), None) is not None, "whatever stands there is a pause, and is not waited for"
    assert run("pause", "--reason", "mine").exit_code == 0
    pause = paused(load(config), None)
    assert pause is not None and pause.reason.startswith("mine")
    assert path.is_file() and not path.is_symlink() and not (tmp_path / "none").exists()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("kept", 0o600)
    assert list(path.parent.glob(".paused*")) == []


def test_a_pause_of_a_year_that_there_is_none_of_is_told(config: Path) -> None:
    for since in ("9" * 30, "253402300800", "-1", "x"):
        Path(load(config).pause_file()).write_text(f"{since} driver\n")
        pause = paused(load(config), None)
        assert pause is not None and "driver" in pause.told


def test_why_says_since_when_by_whom_and_why_pald_is_paused(run: Palctl, tmp_path: Path) -> None:
    run("db", "upgrade")
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    OutcomeRepo(store, "c").record([JobOutcome(7, 1, 2, "A", ("n1",), ((0,),), user="alice")])
    store.close()
    run("pause", "--reason", "new driver")
    for job in ("7", "8"):  # 8: nothing is known of it
        said = run("why", job)
        told = f"{said.output}{said.exception}"
        assert re.search(rf"pald is paused since [0-9: -]+: new driver \(by {WHO}\)", told), told
    run("resume")
    assert "paused" not in run("why", "7").output


def test_pause_works_without_a_database(run: Palctl, config: Path) -> None:
    assert run("pause").exit_code == 0
    assert paused(load(config), None) is not None
    assert isinstance(run("resume").exception, StoreError)
    assert paused(load(config), None) is None


def test_pause_works_with_a_database_that_another_program_holds(
    run: Palctl, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("db", "upgrade")
    monkeypatch.setattr("pal_slurm.store.engine.LOCK_WAIT_S", 0.1)
    with closing(sqlite3.connect(tmp_path / "pal.sqlite", isolation_level=None)) as other:
        other.execute("begin exclusive")
        result = run("pause", "--reason", "a\udcff\nb")
    assert (result.exit_code, "is locked by another program" in result.stderr) == (0, True)
    assert "alone: it holds for pald on this host" in result.stdout
    pause = paused(load(config), None)
    assert pause is not None and pause.reason == f"a  b (by {WHO})"
