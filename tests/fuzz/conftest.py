"""Where worlds live, once a session."""

import logging
from collections.abc import Iterator

import pytest

from tests.fuzz.trial import Court, court


@pytest.fixture(scope="session")
def at() -> Iterator[Court]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # pald tells each trouble; here they are drawn
    with court() as made:
        yield made
    logging.disable(before)
