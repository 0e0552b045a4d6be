"""docs/shapes.md is of the rows that there are, and none of them gets anything else with pald."""

from __future__ import annotations

from tests.docs.pages import PROJECT
from tests.slurm.shapes.compare import EXCEPTIONS
from tests.slurm.shapes.rows import all_rows
from tests.slurm.verdicts.page import code

LINES = (PROJECT / "docs" / "shapes.md").read_text(encoding="utf-8").splitlines()


def test_the_page_holds_every_row_once_and_no_other() -> None:
    cells = [line.split(" | ")[0].removeprefix("| ") for line in LINES if line.startswith("| `")]
    rows = [code(row.name) for row in all_rows()]
    assert cells[: len(rows)] == rows


def test_nothing_differs_but_by_a_named_exception() -> None:
    assert not [line for line in LINES if "**different**" in line]
    assert all(f"- `{name}`: {why}" in LINES for name, why in EXCEPTIONS.items())
