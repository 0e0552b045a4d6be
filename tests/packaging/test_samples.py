"""The samples in etc/ agree with each other, with pal.yaml's defaults and with what reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pal_slurm.config import Config

PROJECT = Path(__file__).parents[2]
LUA_CONF = PROJECT / "etc" / "slurm" / "pal_lua.conf"
KEYS = dict(re.findall(r"^#?([a-z_]+) = (.*)$", LUA_CONF.read_text(), re.MULTILINE))


def test_pal_lua_conf_and_pal_yaml_name_the_same_files_and_the_same_lease() -> None:
    config = Config()
    assert KEYS["alive_file"] == config.cycle.alive_file
    assert KEYS["wake_file"] == config.cycle.wake_file
    assert float(KEYS["lease"]) == config.lease.length_s


def test_every_key_of_pal_lua_conf_is_explained_and_none_is_missing() -> None:
    table = (PROJECT / "docs" / "tagging.md").read_text()
    rows = table[table.index("| `enabled` |") :].partition("\n\n")[0]
    known = set(re.findall(r"^\| `([a-z_]+)` \|", rows, re.MULTILINE))
    assert set(KEYS) == known - {"enabled"}


@pytest.mark.parametrize("commented", [True, False])
def test_job_submit_lua_can_read_it_with_and_without_its_comments(commented: bool, tmp_path: Path) -> None:
    lua = next((name for name in ("lua5.1", "lua5.2", "lua5.3", "lua5.4") if shutil.which(name)), None)
    assert lua is not None, "no Lua found: apt-get install lua5.4"
    text = LUA_CONF.read_text()
    if not commented:
        text = re.sub(r"^#([a-z_]+ =)", r"\1", text, flags=re.MULTILINE)
    (tmp_path / "conf").write_text(text)
    (tmp_path / "job_submit.lua").write_text((PROJECT / "spank" / "job_submit.lua").read_text())
    code = (
        "slurm = setmetatable({}, {__index = function() return function() end end}); dofile('job_submit.lua'); "
        "local s, why = pal.parse_settings(io.open('conf'):read('*a')); print(s and s.alive_file or why)"
    )
    done = subprocess.run([lua, "-e", code], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout.strip() == "/run/pal-slurm/alive", done.stderr


def test_slurm_conf_lines_are_those_that_pald_asks_for() -> None:
    lines = (PROJECT / "etc" / "slurm" / "slurm.conf").read_text()
    asked = re.findall(r"[A-Z]\w+=\w+", (PROJECT / "pal_slurm" / "daemon" / "ready.py").read_text())
    assert [line for line in asked if line not in lines] == []
