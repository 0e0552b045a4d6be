"""The browser and the pages that it opens.

Without Chromium these tests are skipped only where scripts/setup was asked for the Python packages alone; after a whole
setup a missing browser fails them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.store import Store, open_store
from tests.web.browser import BROWSER, DRIVER, Browser
from tests.web.fleets import fill, fill_hostile, fill_large

SET_UP = Path(__file__).parents[2] / ".venv" / "pal-setup-all"


@pytest.fixture(scope="session")
def session_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = [str(path) for path in (BROWSER, DRIVER) if not path.exists()]
    if missing:
        said = f"NO BROWSER: {' and '.join(missing)} missing; scripts/install-browser installs them"
        if SET_UP.exists():
            pytest.fail(said)
        pytest.skip(said)
    browser = Browser(tmp_path_factory.mktemp("browser") / "profile")
    yield browser
    browser.close()


@pytest.fixture
def browser(session_browser: Browser) -> Browser:
    """The one browser of the session, as wide as a desk's and light."""
    session_browser.media()
    return session_browser


Fill = Callable[[Store, Path, float], None]


def page_of(home: Path, fill_store: Fill) -> Path:
    """What `palctl report --html` writes of a database that was filled so."""
    store = open_store(f"sqlite:///{home}/pal.sqlite", create=True)
    fill_store(store, home / "spool", time.time())
    store.close()
    config, page = home / "pal.yaml", home / "fleet.html"
    config.write_text(f"state_dir: {home}\n")
    done = CliRunner().invoke(palctl, ["--config", str(config), "report", "--html", str(page)])
    assert done.exit_code == 0, done.output
    return page


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 nodes with four GPUs."""
    return page_of(tmp_path_factory.mktemp("small"), fill)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """250 nodes with eight GPUs."""
    return page_of(tmp_path_factory.mktemp("large"), fill_large)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four GPUs; whatever can be a text is one that means harm."""
    return page_of(tmp_path_factory.mktemp("hostile"), fill_hostile)
