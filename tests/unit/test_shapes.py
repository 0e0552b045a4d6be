"""The table of shapes holds every option of Slurm's man pages, and every pair of values that is drawn."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from tests.slurm.shapes.options import RELEASES, apart, listed, long_options, of_page
from tests.slurm.shapes.pairs import covering, wanted
from tests.slurm.shapes.rows import all_rows, rows_for

COMMANDS = ("sbatch", "salloc", "srun")
LISTED = frozenset().union(*(listed(release, command) for release in RELEASES for command in COMMANDS))


def test_every_option_is_in_a_row_or_stands_apart_with_a_reason() -> None:
    used = set()
    for row in all_rows():
        used |= long_options(row.words).union(*(long_options(step.split()) for step in row.steps))
    assert used & LISTED | apart().keys() == LISTED
    assert used & apart().keys() == set()
    assert used - LISTED == set()


def test_every_release_runs_over_120_rows_of_its_own_options() -> None:
    for release in RELEASES:
        rows = rows_for(release)
        assert len(rows) > 120
        assert all(long_options(row.words) <= listed(release, row.command) for row in rows)
    assert {row.name for release in RELEASES for row in rows_for(release)} == {row.name for row in all_rows()}


def test_every_two_values_that_may_stand_together_are_drawn_together() -> None:
    rows = list(covering())
    assert wanted() <= {pair for row in rows for pair in combinations(enumerate(row), 2)}
    assert rows == list(covering())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_options_is_the_man_page(command: str) -> None:
    page = Path(f"/usr/share/man/man1/{command}.1.gz")
    if not page.exists():
        pytest.skip("no man pages of Slurm 22.05 on this machine")
    assert of_page(page) == listed("22.05", command)
