"""Runs spank/tests/job_submit_test.lua with every Lua of this machine; Slurm embeds 5.1 on Debian, others elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SPANK = Path(__file__).parents[2] / "spank"
INTERPRETERS = [name for name in ("lua5.1", "lua5.2", "lua5.3", "lua5.4") if shutil.which(name)]


def test_a_lua_interpreter_is_there() -> None:
    assert INTERPRETERS, "no Lua found: apt-get install lua5.4"


@pytest.mark.parametrize("lua", INTERPRETERS)
def test_job_submit_lua_does_what_its_own_cases_say(lua: str, tmp_path: Path) -> None:
    for name in ("job_submit.lua", "cli_filter.lua"):
        shutil.copy(SPANK / name, tmp_path)
    run = subprocess.run(
        [lua, SPANK / "tests" / "job_submit_test.lua", tmp_path, SPANK / "tests" / "vectors.txt"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    verdicts = run.stdout.splitlines()
    assert [line for line in verdicts if not line.startswith("ok ")] == [], run.stderr
    assert run.returncode == 0, run.stderr
    assert len(verdicts) > 20
