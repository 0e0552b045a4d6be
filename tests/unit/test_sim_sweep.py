"""A sweep's grid, what it keeps, and that killing any of its processes neither loses nor doubles a run."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.errors import BadInput
from pal_slurm.sim.sweep.grid import read_sweep

GRID = """
traces: ["synthetic:jobs=60"]
clusters: [4x4/2]
policies: [packed, {name: mine, policy: pal, patience: none}]
comm: [flat, 1/1/1.5/3]
loads: [0.5, 0.9]
seeds: 3
"""
LONGER = GRID.replace("jobs=60", "jobs=150")  # one is killed before it is done
PALCTL = [sys.executable, "-c", "from pal_slurm.cli.palctl import main; main()"]


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def sweep(*words: str | Path) -> Result:
    return CliRunner().invoke(palctl, ["sweep", *map(str, words)], catch_exceptions=False)


def test_a_sweep_gives_one_row_per_run_and_ratios_seed_by_seed(grid: Path) -> None:
    done = sweep(grid, "--processes", "1", "--plot", grid.with_suffix(".png"))
    assert done.exit_code == 0
    rows = list(csv.DictReader(grid.with_suffix(".csv").read_text().splitlines()))
    assert len(rows) == 2 * 2 * 2 * 3
    assert len({(r["comm"], r["load"], r["seed"], r["policy"]) for r in rows}) == len(rows)
    assert {r["jobs"] for r in rows} == {"60"} and all(float(r["avg_jct_s"]) > 0 for r in rows)
    assert grid.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    lines = done.output.splitlines()
    assert lines[0].split("  ")[0] == "trace, cluster, comm, load" and len(lines) == 1 + 4 + 1
    same = [r for r in rows if r["load"] == "0.9" and r["comm"] == "1/1/1.5/3"]
    ratios = [
        float(mine["avg_jct_s"]) / float(packed["avg_jct_s"])
        for packed, mine in zip(same[::2], same[1::2], strict=True)
    ]
    assert f"{sum(ratios) / 3:.3f} " in lines[4]


def test_shares_make_up_the_whole_and_a_second_sweep_runs_nothing_again(grid: Path) -> None:
    assert sweep(grid, "--out", grid.parent / "whole.csv", "--processes", "1").exit_code == 0
    for i in range(3):
        assert sweep(grid, "--share", f"{i}/3").exit_code == 0
        assert not grid.with_suffix(".csv").exists()
    kept = {path: path.stat().st_mtime_ns for path in (grid.parent / "grid.csv.runs").iterdir()}
    assert sweep(grid, "--processes", "1").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (grid.parent / "grid.csv.runs").iterdir()} == kept
    assert grid.with_suffix(".csv").read_bytes() == (grid.parent / "whole.csv").read_bytes()


def descendants(pid: int) -> Iterator[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in map(int, children.read_text().split() if children.exists() else ()):
        yield child
        yield from descendants(child)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a sweep of `LONGER` gives that nobody kills."""
    path = tmp_path_factory.mktemp("whole") / "grid.yaml"
    path.write_text(LONGER)
    assert sweep(path, "--processes", "1").exit_code == 0
    return path.with_suffix(".csv").read_bytes()


@pytest.mark.every(3)
@pytest.mark.parametrize("whom", ["all", "a worker", "the sweep"])
def test_killed_and_started_again_it_gives_the_same_file(grid: Path, whole: bytes, whom: str) -> None:
    grid.write_text(LONGER)
    words = [*PALCTL, "sweep", str(grid), "--processes", "2"]
    begun = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)
    kept = grid.parent / "grid.csv.runs"
    deadline = time.monotonic() + 60
    while not list(kept.glob("*.json")):
        assert begun.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    workers = [pid for pid in descendants(begun.pid) if not list(descendants(pid))]
    if whom == "the sweep":
        begun.kill()
        assert begun.wait() == -signal.SIGKILL
        while any(Path(f"/proc/{pid}").exists() for pid in workers):  # nobody is left behind
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sweep(grid, "--processes", "1").exit_code == 0
    elif whom == "all":
        os.killpg(begun.pid, signal.SIGKILL)
        assert begun.wait() == -signal.SIGKILL
        assert sweep(grid, "--processes", "1").exit_code == 0
    else:
        os.kill(workers[-1], signal.SIGKILL)
        assert begun.wait(120) == 0
    assert len(list(kept.glob("*.json"))) == 24
    assert grid.with_suffix(".csv").read_bytes() == whole


def test_runs_of_another_sweep_are_not_taken_for_this_one(grid: Path) -> None:
    assert sweep(grid, "--share", "0/12").exit_code == 0
    grid.write_text(GRID.replace("0.9", "0.8"))
    with pytest.raises(BadInput, match="holds runs of another sweep"):
        sweep(grid)


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("seeds: 3", "seed: 3", "unknown field `seed`"),
        ("seeds: 3", "seeds: 0", "seeds: there is none"),
        ("seeds: 3", "seeds: [1, 1]", "seeds: 1 stands there twice"),
        ("loads: [0.5, 0.9]", "loads: [0]", "loads: a share"),
        ("loads: [0.5, 0.9]", "loads: [.nan]", "loads: a share"),
        ("policies: [packed,", "policies: [mine,", "no policy 'mine'"),
        ("name: mine, ", "name: packed, ", "policies: packed stands there twice"),
        ("seeds: 3", "seeds: 3\nmoves: 3", "moves"),
        ("seeds: 3", "seeds: 3\nwindow: 0", "window: at least 1 job"),
        ("seeds: 3", "seeds: 900000000", "the most"),
    ],
)
def test_a_wrong_file_is_refused_with_its_field(grid: Path, was: str, now: str, said: str) -> None:
    from pal_slurm.errors import PalError

    grid.write_text(GRID.replace(was, now))
    with pytest.raises(PalError) as refused:
        read_sweep(grid)
    assert said in str(refused.value)


def test_what_goes_wrong_in_a_run_names_the_cell(grid: Path) -> None:
    grid.write_text(GRID.replace("4x4/2", "1x1"))
    with pytest.raises(BadInput, match=r"synthetic:jobs=60, 1x1, flat, 0.5, seed 0: Job .* the cluster has 1"):
        sweep(grid, "--processes", "1")
