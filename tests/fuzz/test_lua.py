"""job_submit.lua bears drawn jobs, every field at every type; spank/tests/fuzz.lua says what would be wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SPANK = Path(__file__).parents[2] / "spank"
INTERPRETERS = [name for name in ("lua5.1", "lua5.2", "lua5.3", "lua5.4") if shutil.which(name)]
SECONDS = float(os.environ.get("PAL_FUZZ_SECONDS", "1"))
SLOW_S = float(os.environ.get("PAL_FUZZ_SECONDS", "600"))


def ran(
    lua: str, home: Path, seconds: float, seed: int, old: str = "", new: str = ""
) -> subprocess.CompletedProcess[str]:
    """With `new` for `old` in job_submit.lua."""
    text = (SPANK / "job_submit.lua").read_text()
    assert old in text
    (home / "job_submit.lua").write_text(text.replace(old, new) if old else text)
    shutil.copy(SPANK / "cli_filter.lua", home)
    words = [lua, str(SPANK / "tests" / "fuzz.lua"), str(home), str(seconds), str(seed)]
    return subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)


def tried(lua: str, home: Path, seconds: float, seed: int) -> None:
    run = ran(lua, home, seconds, seed)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "40 fields and 11 options at each of 8 types" in run.stdout


@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_drawn_job_is_leased_or_left_as_it_was(lua: str, tmp_path: Path) -> None:
    tried(lua, tmp_path, SECONDS, 1)


@pytest.mark.slow
@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_drawn_job_is_leased_or_left_as_it_was_for_ten_minutes(lua: str, tmp_path: Path) -> None:
    tried(lua, tmp_path, SLOW_S, 2)


@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_lease_without_end_would_be_told(lua: str, tmp_path: Path) -> None:
    run = ran(lua, tmp_path, 20, 1, "lease_end = now + length", "lease_end = now + 9000")
    assert run.returncode == 1 and "a lease of 9000 s" in run.stdout


@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_field_that_nobody_tries_would_be_told(lua: str, tmp_path: Path) -> None:
    run = ran(lua, tmp_path, 0.1, 1, 'add("F", job.prefer)', 'add("F", job.wckey)')
    assert run.returncode == 1 and "field wckey is read" in run.stdout
