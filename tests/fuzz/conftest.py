"""Where worlds live, once a session."""

import logging
from collections.abc import Iterator

import pytest

from tests.fuzz.trial import Court, court


@pytest.fixture(scope="session")
def at() -> Iterator[Court]:
    with court() as made:
        yield made


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """pald tells each trouble; here they are drawn."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)
