"""The table of edits holds every field that scontrol takes for a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.edits.fields import FIELDS, apart, of_page
from tests.slurm.edits.rows import STATES, all_cases, cases_for
from tests.slurm.shapes.options import RELEASES


def test_every_field_is_in_a_row_or_stands_apart_with_a_reason() -> None:
    says = [say for case in all_cases() for say in (*case.edits, *case.after)]
    named = {word.partition("=")[0] for say in says for word in say.words if "=" in word and word[0].isupper()}
    named |= {word for say in says for word in say.words if word in FIELDS}
    assert named | apart() == FIELDS
    assert named & apart() == set()


def test_every_state_of_every_release_has_its_edits() -> None:
    for release in RELEASES:
        assert all(len(cases_for(release, state)) > 60 for state in STATES)


def test_the_list_of_fields_is_the_man_page() -> None:
    page = Path("/usr/share/man/man1/scontrol.1.gz")
    if not page.exists():
        pytest.skip("no man pages of Slurm 22.05 on this machine")
    assert of_page(page) - {"IRequeue"} <= FIELDS  # a slip of that page: Requeue
