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


def tried(lua: str, home: Path, seconds: float, seed: int) -> None:
    for name in ("job_submit.lua", "cli_filter.lua"):
        shutil.copy(SPANK / name, home)
    words = [lua, str(SPANK / "tests" / "fuzz.lua"), str(home), str(seconds), str(seed)]
    run = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_drawn_job_is_leased_or_left_as_it_was(lua: str, tmp_path: Path) -> None:
    tried(lua, tmp_path, SECONDS, 1)


@pytest.mark.slow
@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_drawn_job_is_leased_or_left_as_it_was_for_ten_minutes(lua: str, tmp_path: Path) -> None:
    tried(lua, tmp_path, SLOW_S, 2)


@pytest.mark.parametrize("lua", INTERPRETERS)
def test_a_lease_without_end_would_be_told(lua: str, tmp_path: Path) -> None:
    text = (SPANK / "job_submit.lua").read_text().replace("lease_end = now + length", "lease_end = now + 9000")
    (tmp_path / "job_submit.lua").write_text(text)
    words = [lua, str(SPANK / "tests" / "fuzz.lua"), str(tmp_path), "20", "1"]
    run = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    assert run.returncode == 1 and "a lease of 9000 s" in run.stdout
