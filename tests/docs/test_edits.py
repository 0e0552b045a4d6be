"""docs/edits.md is of the rows that there are, and none of them comes out otherwise with pald."""

from __future__ import annotations

from tests.docs.pages import PROJECT
from tests.slurm.edits.rows import all_cases
from tests.slurm.verdicts.page import code

LINES = (PROJECT / "docs" / "edits.md").read_text(encoding="utf-8").splitlines()


def test_the_page_holds_every_row_once_and_no_other() -> None:
    cells = [line.split(" | ")[0].removeprefix("| ") for line in LINES if line.startswith("| `")]
    rows = [code(case.line) for case in all_cases()]
    assert cells[: len(rows)] == rows


def test_nothing_differs_but_by_a_named_exception() -> None:
    assert not [line for line in LINES if "**different**" in line]
