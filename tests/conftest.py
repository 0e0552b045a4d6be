"""Databases for tests: SQLite in a file, PostgreSQL and MariaDB on servers of the session. Plugins of the whole run."""

import gc
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

from pal_slurm.store.migrate import upgrade_url
from tests import spread
from tests.databases import Servers
from tests.slurm.counted import Counted
from tests.turns import turn

EXAMPLES = 60

# Everybody runs the same examples, in CI and on a new clone; `scripts/test --slow`, the nightly run, draws new ones.
settings.register_profile("same", derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("new", deadline=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("new" if config.getoption("markexpr") == "slow or not slow" else "same")
    config.pluginmanager.register(spread)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counted())


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _by_turns(items)
    _fewer_examples(config, items)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # thousands of tests that stay: nobody need look through them again


def _by_turns(items: list[pytest.Item]) -> None:
    """Of the cases of a test with `@pytest.mark.every(3)` a push runs every third, and the next push others."""
    cases: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker("every")
        if marker is None or item.get_closest_marker("slow"):
            continue
        (every,) = marker.args
        test = item.nodeid.partition("[")[0]
        if (crc32(test.encode()) + cases[test]) % every != turn(every):
            item.add_marker(pytest.mark.slow)
        cases[test] += 1


def _fewer_examples(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the examples that a test asks for, `scripts/test --fast` takes a tenth, a push so many; `--slow` takes all."""
    quick, all_of_them = os.environ.get("PAL_TEST_QUICK"), config.getoption("markexpr") != "not slow"
    if all_of_them and not quick:
        return
    for test in {getattr(item, "obj", None) for item in items}:
        told = getattr(test, "_hypothesis_internal_use_settings", None)
        if told is not None:
            most = told.max_examples // 10 + 1 if quick else min(told.max_examples, EXAMPLES)
            vars(getattr(test, "__func__", test))["_hypothesis_internal_use_settings"] = settings(
                told, max_examples=most
            )


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    opened = Servers()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file without any row, to be copied."""
    path = tmp_path_factory.mktemp("template") / "pal.sqlite"
    upgrade_url(f"sqlite:///{path}")
    return path


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that other users may enter; `tmp_path` is not, and each session of pytest makes sure of that."""
    with tempfile.TemporaryDirectory(prefix="pal-public-") as home:
        Path(home).chmod(0o755)
        yield Path(home)
