"""One version: in pal_slurm/__init__.py, and all else takes it from there. Installs that can be made again."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pal_slurm import __version__
from pal_slurm.cli.palctl import main as palctl
from pal_slurm.cli.pald import main as pald
from pal_slurm.probe.main import main as pal_probe
from pal_slurm.probe.running.main import main as pal_run

PROJECT = Path(__file__).parents[2]


def told(path: str) -> dict[str, Any]:
    return tomllib.loads((PROJECT / path / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("program", [palctl, pald, pal_probe, pal_run], ids=["palctl", "pald", "pal-probe", "pal-run"])
def test_each_program_says_it(
    program: Callable[[], object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["it", "--version"])
    with pytest.raises(SystemExit):
        program()
    assert capsys.readouterr().out.split()[-1] == __version__


@pytest.mark.parametrize("path", [".", "packaging/probe"])
def test_each_package_reads_it(path: str) -> None:
    project = told(path)
    assert project["project"]["dynamic"] == ["version"]
    source = PROJECT / path / project["tool"]["hatch"]["version"]["path"]
    assert source.resolve() == PROJECT / "pal_slurm" / "__init__.py"


def test_the_changelog_begins_with_it() -> None:
    headings = re.findall(r"^## \[([^]]+)\]", (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == __version__
    assert headings == sorted(headings, key=Version, reverse=True)


def test_every_requirement_has_an_exact_version_that_fits_it() -> None:
    lines = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = told(".")
    wants = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra, more in project["project"]["optional-dependencies"].items():
        wants += more if extra != "torch" else []
    for text in wants:
        one = Requirement(text)
        assert one.specifier.contains(pins[one.name.lower()]), f"{text}: run scripts/constraints"


def test_a_commit_is_asked_what_scripts_check_asks() -> None:
    hooks = (PROJECT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    check = (PROJECT / "scripts" / "check").read_text(encoding="utf-8")
    for tool in ("ruff format", "ruff check", "mypy", "lint-imports --no-cache"):
        assert tool in hooks and tool in check
