"""Builds the SPANK plugin and tries its parts under AddressSanitizer and UBSan. Needs gcc, make and Slurm's headers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SPANK = Path(__file__).parents[2] / "spank"


def make(target: str, out: Path, *more: str) -> str:
    run = subprocess.run(
        ["make", "-C", SPANK, target, f"OUT={out}", *more], capture_output=True, text=True, timeout=3600, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spank")
    make("all", out)
    return out / "pal.so"


def tool(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_parts_pass_their_own_cases_under_the_sanitizers(tmp_path: Path) -> None:
    assert "names" in make("check", tmp_path)


def searched(out: Path, seconds: float) -> None:
    """tests/fuzz.c, from what earlier searches found."""
    ((inputs, ways),) = re.findall(r"([0-9]+) inputs, ([0-9]+) ways", make("fuzz", out, f"SECONDS_OF_CPU={seconds:g}"))
    assert int(inputs) > 1000 and int(ways) > 150


def test_inputs_that_go_new_ways_read_no_byte_out_of_turn(tmp_path: Path) -> None:
    searched(tmp_path, float(os.environ.get("PAL_FUZZ_SECONDS", "1")))


@pytest.mark.slow
def test_ten_minutes_of_inputs_that_go_new_ways_read_no_byte_out_of_turn(tmp_path: Path) -> None:
    searched(tmp_path, float(os.environ.get("PAL_FUZZ_SECONDS", "600")))


def test_a_byte_too_far_is_found(tmp_path: Path) -> None:
    """A class name that is longer than its place, in a list of classes: no input to begin with holds one."""
    shutil.copytree(SPANK, tmp_path / "spank")
    file = tmp_path / "spank" / "classes.c"
    text = file.read_text()
    assert "= %65[" in text
    file.write_text(text.replace("= %65[", "= %99["))
    words = ("fuzz", "OUT=out", "SECONDS_OF_CPU=60", f"CORPUS={SPANK.parent / 'tests/fuzz/corpus/plugin'}")
    run = subprocess.run(["make", "-C", tmp_path / "spank", *words], capture_output=True, text=True, check=False)
    assert "stack-buffer-overflow" in run.stderr and "pal_classes_find" in run.stderr
    assert "the input, in hex: " in run.stderr


def test_the_plugin_exports_only_what_slurm_looks_for(plugin: Path) -> None:
    symbols = {line.split()[-1].split("@")[0] for line in tool("nm", "-D", "--defined-only", plugin).splitlines()}
    symbols.discard("PAL_1")  # the version node itself
    own = {"plugin_name", "plugin_type", "plugin_version"}
    assert own < symbols
    assert all(name.startswith("slurm_spank_") for name in symbols - own)


def test_the_plugin_is_hardened(plugin: Path) -> None:
    headers, dynamic = tool("readelf", "-lW", plugin), tool("readelf", "-dW", plugin)
    stack = next(line for line in headers.splitlines() if "GNU_STACK" in line)
    assert "GNU_RELRO" in headers
    assert " E " not in stack
    assert "RWE" not in stack
    assert "BIND_NOW" in dynamic or "NOW" in dynamic
    assert "__stack_chk_fail" in tool("nm", "-D", plugin)
