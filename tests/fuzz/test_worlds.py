"""pald in drawn worlds: no promise is broken in any of them; those that once broke one stay kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

import pal_slurm.daemon.cycle as cycle
from tests.fuzz.draw import draw
from tests.fuzz.mutants import broken, convicted
from tests.fuzz.script import Script, read
from tests.fuzz.trial import Court

FIRST = int(os.environ.get("PAL_FUZZ_FROM", "0"))
PARTS, EACH = 200, 20  # 4,000 worlds with --slow
IN_CI = 100  # of the parts: by what they cost, see docs/bench.md
QUICK = 2
CAUGHT = sorted((Path(__file__).parent / "caught").glob("*.txt"))
FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))


def parts() -> list[object]:
    often = QUICK if os.environ.get("PAL_TEST_QUICK") else IN_CI
    return [pytest.param(part, marks=[pytest.mark.slow] if part >= often else []) for part in range(PARTS)]


@pytest.mark.parametrize("part", parts())
def test_no_promise_is_broken(at: Court, part: int) -> None:
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        verdicts = at.tried(draw(seed))
        assert not verdicts, f"seed {seed} (scripts/fuzz --from {seed} --seeds 1 shrinks it): {verdicts[0]}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_is_mended(at: Court, path: Path) -> None:
    text = path.read_text()
    script = read(text)
    assert not at.tried(script)
    for line in text.splitlines():
        if line.startswith("# mutant: "):  # as it was
            with broken(line.removeprefix("# mutant: ")):
                assert path.stem.rpartition("-")[0] in [v.rule for v in at.tried(script)]


@pytest.mark.parametrize("path", CAUGHT, ids=lambda path: path.stem)
def test_a_pald_that_is_broken_on_purpose_is_caught(at: Court, path: Path) -> None:
    script = read(path.read_text())
    assert not at.tried(script)
    with broken(path.stem):
        assert convicted(at, script)


def test_a_mutation_that_only_raises_is_not_taken_for_caught(at: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*words: object, **named: object) -> NoReturn:
        raise TypeError("it no longer fits")

    monkeypatch.setattr(cycle, "plan", raises)
    script = read("cluster nodes=3\n1 job runs=9 user=u | --gpus=2 -t 2\n")
    assert [verdict.rule for verdict in at.tried(script)] == ["fault"]
    assert not convicted(at, script)


def test_a_world_with_two_palds_is_the_same_each_time_it_is_lived(at: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    histories: list[str] = []
    monkeypatch.setattr(at, "told", histories.append)
    for _ in range(2):
        at.tried(draw(2))
    assert "leads for another" in histories[0] and histories[0] == histories[1]


@pytest.mark.parametrize("seed", [0, 7, 1234567])
def test_a_seed_says_the_same_each_time_and_a_script_is_read_as_it_is_written(seed: int) -> None:
    script = draw(seed)
    assert script == draw(seed)
    assert isinstance(script, Script) and read(str(script)) == script
