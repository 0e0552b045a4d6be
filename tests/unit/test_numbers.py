"""Numbers from outside: on command lines, where the option is named, and in files, ASCII digits within limits only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import Config
from pal_slurm.daemon.pausing import paused
from pal_slurm.errors import BadInput
from pal_slurm.probe.main import build_parser
from pal_slurm.words import MOST_DIGITS, digits
from tests.unit.test_palctl_commands import commands

NONSENSE = ("nan", "inf", "-inf", "Infinity", "-5", "٣", "1_0", "1e400", "9" * 400, "0x10", " 3", "3\n", "", "²")


def numeric() -> list[tuple[tuple[str, ...], str]]:
    """Every option and argument of palctl that takes a number, with its command."""
    found = []
    for path in commands(palctl):
        command: click.Command = palctl
        for word in path:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word) or command
        for param in command.params:
            if isinstance(param.type, (click.types.FloatParamType, click.types.IntParamType)):
                found.append((path, param.opts[-1] if isinstance(param, click.Option) else ""))
    return found


@pytest.mark.parametrize(("path", "option"), numeric(), ids=lambda x: "-".join(x) if isinstance(x, tuple) else x)
def test_nonsense_for_a_number_is_refused_and_the_option_is_named(path: tuple[str, ...], option: str) -> None:
    for text in NONSENSE:
        words = [f"{option}={text}"] if option else ["--", text]
        done = CliRunner().invoke(palctl, ["--config", "/nowhere/pal.yaml", *path, *words])
        assert done.exit_code == 2, (text, done.output)
        assert (option or "JOB") in done.stderr and "Invalid value for" in done.stderr, (text, done.stderr)


def test_all_that_the_issue_named_are_among_them() -> None:
    assert {
        (("undo",), "--if-dead"),
        (("gained",), "--since"),
        (("alerts",), "--since"),
        (("gain",), "--since"),
        (("jobs",), "--since"),
    } <= set(numeric())


BENCH = ("rounds", "warm", "run", "cool-to", "cool-wait", "sample", "patience", "most")
PROBE = [
    *(("bench", "-k", "x", f"--{name}") for name in BENCH),
    ("inventory", "--patience"),
    *(("watch", "--spool", "/x", f"--{name}") for name in ("interval", "line", "part")),
    ("step", "1", "--count"),
    ("import", "dcgm", "x", "--measured-at"),
]


@pytest.mark.parametrize("words", PROBE, ids=lambda words: words[-1])
def test_pal_probe_refuses_them_too(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for text in NONSENSE:
        with pytest.raises(SystemExit) as ended:
            build_parser().parse_args([*words[:-1], f"{words[-1]}={text}"])
        assert ended.value.code == 2
        assert f"argument {words[-1]}: " in capsys.readouterr().err


@pytest.mark.parametrize("job", ["٣", "1٣", "1_٣", "²", "1.5", "-1", "1_2_3", ""])
def test_why_refuses_what_is_no_job_id(job: str, tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\n")
    words: list[str | Path] = [
        Path(sys.executable).parent / "palctl",
        "--config",
        tmp_path / "pal.yaml",
        "why",
        "--",
        job,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 65
    assert "is no job id; write 1234" in done.stderr


@pytest.mark.parametrize("nodes", ["n[1-", "n[2-1]", "n[", "n 1", ",", "@all", "n[1-999999999]", "n1\x1b[2J"])
def test_profile_run_refuses_what_is_no_node_list(nodes: str, tmp_path: Path) -> None:
    (tmp_path / "pal.yaml").write_text(f"state_dir: {tmp_path}\nprofile: {{spool: {tmp_path}/spool}}\n")
    (tmp_path / "spool").mkdir()
    words = ["--config", str(tmp_path / "pal.yaml"), "profile", "run", "--nodes", nodes]
    done = CliRunner().invoke(palctl, words)
    assert isinstance(done.exception, BadInput)
    assert str(done.exception).startswith("--nodes '")
    assert str(done.exception).endswith(": no list of nodes; write it as n[1-8] or n1,n2")


@given(st.text())
def test_what_counts_as_digits_is_what_int_reads_as_written(text: str) -> None:
    assert digits(text) == (0 < len(text) <= MOST_DIGITS and set(text) <= set("0123456789"))


def test_a_pause_file_with_odd_digits_pauses(tmp_path: Path) -> None:
    """`"²".isdigit()` is true, and float() raises: that was an exception out of the cycle."""
    (tmp_path / "paused").write_text("² maintenance\n")
    pause = paused(Config(state_dir=str(tmp_path)), None)
    assert pause is not None
    assert (pause.since, pause.reason) == (0.0, "maintenance")
