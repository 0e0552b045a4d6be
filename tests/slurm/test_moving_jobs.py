"""The scripts of docs/moving-jobs.md, as they stand there, on a real Slurm: each saves on its signal and resumes there.

Each is asked by its signal first, as a move that was agreed on does, then requeued by scontrol alone, as one of a job
that only said `pal:move`. torch and lightning are too large for everybody's scripts/setup: `.ci/run` brings them, and
elsewhere the scripts that need them are left out, which a test of its own says.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, blocks
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import BIN
from tests.slurm.test_palwork import start_again

PAGE = PROJECT / "docs" / "moving-jobs.md"


@dataclass(frozen=True)
class Recipe:
    name: str
    start: tuple[str, ...]  # prints the job's number
    ask: tuple[str, ...]  # scancel's words
    output: str
    needs: str | None = None


SBATCH = ("sbatch", "--parsable", "--output=out")
RECIPES = [
    Recipe("bash", (*SBATCH, "sweep.sh"), ("--signal=USR1", "--batch"), "out"),
    Recipe("pytorch", (*SBATCH, "train.sh"), ("--signal=USR1",), "out", "torch"),
    Recipe("lightning", (*SBATCH, "fit.sh"), ("--signal=USR1",), "out", "lightning"),
    Recipe("submitit", ("python", "submit.py"), ("--signal=USR2",), "logs/*_log.out", "submitit"),
]
HERE = [recipe for recipe in RECIPES if recipe.needs is None or importlib.util.find_spec(recipe.needs)]


def test_the_recipes_whose_library_is_not_installed_are_told() -> None:
    if left := [f"{recipe.name} needs {recipe.needs}" for recipe in RECIPES if recipe not in HERE]:
        pytest.skip(f"NOT TESTED HERE: {', '.join(left)}; PAL_MORE_PACKAGES of .ci/run brings them")


def test_every_script_of_the_page_belongs_to_a_recipe() -> None:
    files = {block.info.partition(" file=")[2] for block in blocks(PAGE) if " file=" in block.info}
    assert files == {"sweep.sh", "train.py", "train.sh", "fit.py", "fit.sh", "submit.py"}


class Told:
    """What the script printed so far, run by run."""

    def __init__(self, home: Path, pattern: str) -> None:
        self.home, self.pattern = home, pattern

    def runs(self) -> list[tuple[int, list[int], list[int]]]:
        """Each: where it began, its steps, those it saved at."""
        text = "".join(path.read_text(errors="replace") for path in self.home.glob(self.pattern))
        found: list[tuple[int, list[int], list[int]]] = []
        for what, number in re.findall(r"^(begins at|saved)? ?step (\d+)$", text, re.MULTILINE):
            if what == "begins at":
                found.append((int(number), [], []))
            elif found:
                (found[-1][2] if what else found[-1][1]).append(int(number))
        return found

    def wait_for(self, runs: int, condition: Callable[[list[int], list[int]], bool], what: str) -> None:
        wait_for(lambda: len(self.runs()) == runs and condition(*self.runs()[-1][1:]), f"{what}: {self.runs()}", 120)


def goes_on_at_the_step_that_it_had_saved(minicluster: Minicluster, tmp_path: Path, recipe: Recipe) -> None:
    for block in blocks(PAGE):
        if " file=" in block.info:
            (tmp_path / block.info.partition(" file=")[2]).write_text(block.text)
    told = Told(tmp_path, recipe.output)
    start = f'cd {tmp_path}; PATH={BIN}:$PATH exec "$@"'
    job = int(minicluster.client("sh", "-c", start, "sh", *recipe.start, timeout=120).split()[-1].split(";")[0])

    told.wait_for(1, lambda steps, _: len(steps) > 2, "the first run is at work")
    minicluster.client("scancel", *recipe.ask, str(job))
    start_again(minicluster, job)
    told.wait_for(2, lambda steps, saved: len(saved) > 0 and steps[-1] > saved[-1], "the second run saves by itself")
    first, second = told.runs()
    assert second[0] == first[2][-1] > 0, "it resumed where it had saved when it was asked"
    assert second[1] == list(range(second[0] + 1, second[1][-1] + 1))

    minicluster.client("scontrol", "requeue", str(job))
    start_again(minicluster, job)
    told.wait_for(3, lambda steps, _: len(steps) > 2, "the third run is at work")
    _, second, third = told.runs()
    assert third[0] == second[2][-1] > second[0], "it resumed at its last save, though nobody had asked for one"
    assert third[1][:3] == [third[0] + 1, third[0] + 2, third[0] + 3]
    minicluster.client("scancel", "--full", str(job))


@pytest.mark.every(2)
@pytest.mark.slurm("22.05")  # this machine's own: the others have a Python of their own, without torch
@pytest.mark.parametrize("recipe", HERE, ids=lambda recipe: recipe.name)
def test_a_recipe_goes_on_at_the_step_that_it_had_saved(
    minicluster: Minicluster, tmp_path: Path, recipe: Recipe
) -> None:
    goes_on_at_the_step_that_it_had_saved(minicluster, tmp_path, recipe)


@pytest.mark.slurm("24.11", "26.05")
def test_so_does_the_one_without_python(minicluster: Minicluster, tmp_path: Path) -> None:
    goes_on_at_the_step_that_it_had_saved(minicluster, tmp_path, RECIPES[0])
