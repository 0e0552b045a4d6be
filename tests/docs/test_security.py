"""docs/security.md names tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PROJECT

TEXT = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"(tests/[\w/]+\.py)::(\w+)", TEXT)))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_named_test_exists(file: str, test: str) -> None:
    assert re.search(rf"^ *def {test}\(", (PROJECT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_tests_are_named() -> None:
    assert len(NAMED) > 20
    assert len(NAMED) == len(set(re.findall(r"tests/[\w/]+\.py::\w+", TEXT)))


def test_every_row_of_who_and_what_names_a_test() -> None:
    tables = TEXT.split("## A bad node")[0]
    rows = [
        line
        for line in tables.splitlines()
        if line.startswith("| ") and not line.startswith(("| who |", "| what |", "| he |", "| what holds |"))
    ]
    assert len(rows) > 30
    assert [row[:60] for row in rows if "::" not in row] == []


def test_the_limits_of_the_units_are_those_of_the_test() -> None:
    from tests.packaging.test_units import EXPOSURE, MOST, SERVICES

    said = dict(re.findall(r"^\| `(\S+\.service)` \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|$", TEXT, re.MULTILINE))
    assert said == {unit: str(EXPOSURE.get(unit, MOST)) for unit in SERVICES}
