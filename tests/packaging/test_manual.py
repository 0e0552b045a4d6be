"""Man pages and completions say what --help says: nothing is missing, and their readers have no complaint."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.cli.manual import manual, programs
from pal_slurm.cli.manual.man import roff
from pal_slurm.cli.manual.tree import Command
from pal_slurm.config.keys import all_keys

FILES = manual()
PAGES = sorted(name for name in FILES if name.startswith("man/"))
COMMANDS = [command for program in programs().values() for command in program.walk()]
Complete = Callable[..., list[str]]


def page_of(program: str) -> str:
    return next(text for name, text in FILES.items() if name.startswith("man/") and Path(name).stem == program)


def test_there_is_a_page_per_program_and_one_for_the_settings() -> None:
    assert [Path(name).name for name in PAGES] == [
        "pal-probe.1", "pal-run.1", "palctl.1", "pal.yaml.5", "pal-page.8", "pald.8",
    ]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.path))
def test_every_command_and_option_stands_on_its_page(command: Command) -> None:
    page = page_of(command.path[0])
    assert command.about
    assert roff(" ".join(command.path)) in page
    assert all(f"\\fB{roff(name)}\\fR" in page for option in command.options for name in option.names)
    assert all(option.help for option in command.options)


def test_every_key_of_pal_yaml_stands_on_its_page() -> None:
    page = FILES["man/man5/pal.yaml.5"]
    assert [key.path for key in all_keys() if roff(key.path) not in page or roff(key.why) not in page] == []


@pytest.mark.parametrize("name", PAGES)
def test_groff_has_no_complaint_about_a_page(name: str, tmp_path: Path) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man-db or groff is not installed: apt-get install man-db groff")
    path = tmp_path / Path(name).name
    path.write_text(FILES[name])
    env = os.environ | {"LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"}
    words = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_text_can_give_roff_no_orders() -> None:
    assert roff(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert roff("'br") == "\\(aqbr"
    assert roff("a\\fBb --all") == "a\\efBb \\-\\-all"


@pytest.fixture
def bash(tmp_path: Path) -> Complete:
    """What bash would offer after these words; the last is the one being typed."""

    def complete(*words: str) -> list[str]:
        name = words[0]
        script = tmp_path / name
        script.write_text(FILES[f"bash-completion/completions/{name}"])
        code = f'. {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{name.replace("-", "_")}; '
        code += 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "--norc", "-c", code, "bash", *words],
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()

    return complete


def test_bash_offers_commands_below_commands_and_options(bash: Complete) -> None:
    assert bash("palctl", "con") == ["config"]
    assert bash("palctl", "config", "") == ["check", "explain", "sample", "show"]
    assert bash("palctl", "config", "check", "--j") == ["--json"]
    assert "--check-config" in bash("pald", "--")


def test_bash_takes_the_value_of_an_option_for_no_command(bash: Complete) -> None:
    assert "config" in bash("palctl", "--cluster", "gain", "")
    assert bash("palctl", "--config", "") == []  # files, by bash itself
    assert bash("pal-probe", "bench", "--scope", "") == ["gpu", "node", "both"]


def test_bash_asks_slurm_for_jobs_and_nodes(bash: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("squeue", "4711\n4712_3\n815"), ("sinfo", "n1\nn2")):
        client = tmp_path / "bin" / name
        client.parent.mkdir(exist_ok=True)
        client.write_text(f"#!/bin/sh\necho '{said}'; echo noise >&2\n")
        client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    assert bash("palctl", "why", "47") == ["4711", "4712_3"]
    assert bash("palctl", "undo", "8") == ["815"]
    assert bash("palctl", "why", "--j") == ["--json"]
    assert bash("palctl", "gpu", "") == ["n1", "n2"]
    assert bash("palctl", "profile", "run", "--nodes", "n") == ["n1", "n2"]


def test_without_slurm_a_tab_says_nothing(bash: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bash", "timeout"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bash("palctl", "why", "") == []


def test_bash_offers_the_choices_of_an_argument(bash: Complete) -> None:
    assert bash("pal-probe", "import", "d") == ["dcgm"]
