"""What palctl's commands have in common: schemas of --json, colours, times, the pager."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import get_args

import click
import msgspec
import pytest
from click.testing import CliRunner

from pal_slurm.cli.answers import ANSWERS, VERSION, schema
from pal_slurm.cli.commands import alerts, apps, db, doctor, slots, topology
from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from pal_slurm.model import (
    Edit,
    Exclude,
    Fence,
    Include,
    Intent,
    LeaseAgain,
    Pin,
    Plain,
    Renew,
    Renice,
    Request,
    Requeue,
    Unpin,
    Warn,
)
from pal_slurm.report import gain, jobs, moves, what_if
from pal_slurm.report.life import Life
from pal_slurm.report.text import Value, as_json, clock, rows_as_json
from pal_slurm.store import open_store
from pal_slurm.store.nights import Alert, NightRepo
from tests.unit.answered import judge


def with_json(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Commands that print JSON; `--json FILE` writes one."""
    if any("--json" in p.opts and getattr(p, "is_flag", False) for p in group.params):
        yield " ".join(path)
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from with_json(command, (*path, name))


@pytest.mark.parametrize("odd", [float("inf"), float("-inf"), float("nan")])
def test_one_odd_number_costs_its_own_field_of_an_answer(odd: float) -> None:
    rows: list[dict[str, Value]] = [{"job": 1, "gain": odd, "app": "\x9b"}, {"job": 2, "gain": 0.5, "app": "x"}]
    expected = [{"job": 1, "gain": None, "app": "\x9b"}, {"job": 2, "gain": 0.5, "app": "x"}]
    for text in (rows_as_json(rows), as_json(rows)):
        assert json.loads(text) == expected and text.isascii()
    assert clock(odd) in ("after the year 9999", "before the year 1", "no time")


@pytest.mark.parametrize("at", [253_402_300_800, 2**62, 1e300, -(2**62), -1e300])
def test_a_time_that_no_calendar_has_is_a_sentence(at: float) -> None:
    assert clock(at) == ("after the year 9999" if at > 0 else "before the year 1")


def test_every_command_with_json_has_a_schema() -> None:
    assert set(with_json(palctl)) == set(ANSWERS)


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("alerts", alerts.FIELDS), ("db vacuum", db.FIELDS), ("doctor", doctor.FIELDS), ("gained", gain.FIELDS),
        ("apps", {*apps.FIELDS, *apps.PAIRS, *apps.RATES}), ("jobs", jobs.FIELDS), ("slots check", slots.FIELDS),
        ("moves", {*moves.FIELDS, *what_if.FIELDS}), ("topology", topology.FIELDS),
    ],
)  # fmt: skip
def test_a_schema_has_the_fields_that_rows_have(command: str, fields: Collection[str]) -> None:
    """A field that is new in rows is in their schema, or this fails, whether or not a test asks for such a row."""
    lists = [part for part in (schema(command), *schema(command)["$defs"].values()) if "properties" in part]
    assert set(fields) in [set(part["properties"]) for part in lists]


def test_schemas_have_a_version_and_can_be_read() -> None:
    told = json.loads(CliRunner().invoke(palctl, ["schema"]).stdout)
    assert set(told) == set(ANSWERS)
    assert told["slots check"]["$id"] == f"urn:pal-slurm/{VERSION}/slots-check"
    one = json.loads(CliRunner().invoke(palctl, ["schema", "slots", "check"]).stdout)
    assert one == told["slots check"]
    assert one["$defs"]["FindingShown"]["properties"]["level"]
    error = CliRunner().invoke(palctl, ["schema", "job"]).exception
    assert isinstance(error, BadInput) and "did you mean 'jobs'" in str(error)


def test_every_object_of_a_schema_says_what_is_in_it() -> None:
    """But of two, whose keys a site names."""

    def open_ones(part: object) -> Iterator[object]:
        if isinstance(part, dict):
            if part.get("type") == "object" and not (part.get("properties") or part.get("additionalProperties")):
                yield part
            for inner in part.values():
                yield from open_ones(inner)
        elif isinstance(part, list):
            for inner in part:
                yield from open_ones(inner)

    left_open = {command for command in ANSWERS if any(open_ones(schema(command)))}
    assert left_open == {"config show", "profile run"}


def test_an_output_that_is_not_as_documented_would_be_found() -> None:
    judge(["doctor", "--json"], '{"ready": true, "mended": [], "lines": []}')
    for wrong in ('{"ready": true, "mended": []}', '{"ready": 1, "mended": [], "lines": []}', '{"more": 1}'):
        with pytest.raises(msgspec.ValidationError):
            judge(["doctor", "--json"], wrong)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Forty alerts, one a minute since 2026-01-01 00:00 UTC."""
    path = tmp_path / "pal.yaml"
    path.write_text(f"state_dir: {tmp_path}\n")
    assert CliRunner().invoke(palctl, ["--config", str(path), "db", "upgrade"]).exit_code == 0
    store = open_store(f"sqlite:///{tmp_path}/pal.sqlite")
    NightRepo(store).alert(Alert(f"shift:{n}", "shift", f"alert {n}", 1_767_225_600.0 + 60 * n) for n in range(40))
    store.close()
    return path


def words(config: Path, *more: str) -> list[str]:
    code = "from pal_slurm.cli.palctl import main; main()"
    return [sys.executable, "-c", code, "--config", str(config), *more]


def test_times_are_of_this_host_or_utc(config: Path) -> None:
    told = {}
    for options in ((), ("--utc",)):
        done = subprocess.run(
            words(config, *options, "alerts", "--since", "9999d"), capture_output=True, text=True, timeout=60,
            check=True, env=os.environ | {"TZ": "Asia/Tokyo"},
        )  # fmt: skip
        told[options] = done.stdout.splitlines()[-1]
    assert told[()].startswith("2026-01-01 09:00")
    assert told[("--utc",)].startswith("2026-01-01 00:00")


@pytest.mark.usefixtures("in_tokyo")
def test_utc_is_of_one_command_only(config: Path) -> None:
    for options, hour in (([], "09:00"), (["--utc"], "00:00"), ([], "09:00")):
        output = CliRunner().invoke(palctl, ["--config", str(config), *options, "alerts", "--since", "9999d"]).output
        assert output.splitlines()[-1].startswith(f"2026-01-01 {hour}")


def on_terminal(command: list[str], **env: str) -> str:
    """What a terminal of 24 lines would get."""
    parent, child = pty.openpty()
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "PAGER", "LESS")}
    with subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, env=plain | {"TERM": "xterm"} | env, close_fds=True
    ) as running:
        os.close(child)
        got = b""
        try:
            while chunk := os.read(parent, 65_536):
                got += chunk
        except OSError:  # how Linux says that nobody writes to it any more
            pass
        running.wait(60)
    os.close(parent)
    return got.decode()


@pytest.mark.parametrize(
    ("options", "env", "coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"NO_COLOR": ""}, True),
        (("--color", "never"), {}, False),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
    ],
)
def test_colours_on_a_terminal(config: Path, options: tuple[str, ...], env: dict[str, str], coloured: bool) -> None:
    shown = on_terminal(words(config, *options, "--no-pager", "alerts", "--since", "9999d"), **env)
    assert "alert 39" in shown
    assert ("\x1b[" in shown) == coloured


def test_a_reader_that_has_gone_and_a_disk_that_is_full_are_no_fault_that_was_found(config: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone, Path("/dev/full").open("wb") as full:
        ends = [
            subprocess.run(words(config, "alerts", "--since", "9999d"), stdout=to, stderr=subprocess.PIPE, check=False)
            for to in (gone, full)
        ]
    assert [(end.returncode, end.stderr.decode()) for end in ends] == [
        (141, ""), (74, "palctl: what was to be printed: No space left on device\n"),
    ]  # fmt: skip


def test_what_a_terminal_has_no_characters_for_is_shown_escaped(config: Path) -> None:
    store = open_store(f"sqlite:///{config.parent}/pal.sqlite")
    NightRepo(store).alert([Alert("shift:x", "shift", "n\u00e9 \u2192 1", time.time())])
    store.close()
    done = subprocess.run(
        words(config, "alerts", "-o", "said"), capture_output=True, timeout=60, check=True,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert done.stdout.splitlines()[1] == b"n\xe9 \\u2192 1"


def test_a_long_table_goes_through_the_pager_and_a_short_one_does_not(config: Path) -> None:
    pager = {"PAGER": "sed s/^/PAGED:/"}
    long = words(config, "alerts", "--since", "9999d")
    assert on_terminal(long, **pager).count("PAGED:") >= 41
    for command in (
        words(config, "alerts", "--since", "1h"),
        words(config, "--no-pager", "alerts", "--since", "9999d"),
    ):
        assert "PAGED:" not in on_terminal(command, **pager)
    done = subprocess.run(long, capture_output=True, text=True, timeout=60, check=True, env=os.environ | pager)
    assert "PAGED:" not in done.stdout, "never where nobody sits"


EDITS: tuple[Edit, ...] = (
    Pin(1, nodes=("n1",), slots=(0, 3), partition="gpu", original=Request(per_node="gres/gpu:2")), Plain(1, 7),
    Renew(1, until=60, between=True), LeaseAgain(1, until=60), Unpin(1, until=60, original=Request(), nice=3),
    Exclude(1, nodes=("n1",)), Include(1), Warn(1, signal="USR1", to_script=True), Requeue(1, until=60, nice=2),
    Renice(1, nice=-5), Fence(1, nodes=("n1", "n2"), until=60),
)  # fmt: skip


def test_each_kind_of_edit_is_shown_as_documented() -> None:
    assert {type(edit) for edit in EDITS} == set(get_args(Edit))
    for edit in EDITS:
        life = Life((), (Intent(1, 5, edit, 1, 10.0),), ())
        judge(["why", "1", "--json"], as_json(life.plain()))
