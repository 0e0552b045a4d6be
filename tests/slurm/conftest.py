"""Real clusters for tests.

A test asks for `minicluster`, and runs once per release: on all, or on those that its marker names, on some of them
only with `--slow` (`@pytest.mark.slurm("24.11", slow=("22.05", "26.05"))`). What is about pald and not about a release
runs on one of several, by turns, and on the others with `--slow` (`@pytest.mark.slurm(turns=("22.05", "26.05"))`;
tests/turns.py). One cluster per release lives through the session and is as new for each test. `make_minicluster`
starts others.
`PAL_TEST_RELEASES="22.05 26.05"` asks for fewer releases; `counted.py` counts the tests, and fails the run when one is
skipped in any other way.
"""

import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.slurm.counted import NOT_ASKED, told
from tests.slurm.minicluster import RELEASES, Minicluster, tool
from tests.turns import turn


def asked() -> list[str]:
    """The releases to test: all, unless the environment says otherwise."""
    names = re.split(r"[ ,]+", os.environ.get("PAL_TEST_RELEASES", "").strip())
    names = ["22.05" if name == "native" else name for name in names if name]
    unknown = set(names) - set(RELEASES)
    if unknown:
        raise pytest.UsageError(f"PAL_TEST_RELEASES: {', '.join(unknown)}: choose of {', '.join(RELEASES)}")
    return names or list(RELEASES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "release" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("slurm")
    kinds = marker.kwargs if marker else {}
    turns, slow = list(kinds.get("turns", ())), list(kinds.get("slow", ()))
    wanted = [*marker.args, *turns, *slow] if marker and (marker.args or turns) else list(RELEASES)
    able = [name for name in turns if name in asked()] or turns
    slow += [name for name in turns if name != able[turn(len(able))]]
    every = metafunc.definition.get_closest_marker("every")
    if turns and every and every.args[0] % len(turns) == 0:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: every({every.args[0]}) meets the same release each time"
        )
    unknown = set(wanted) - set(RELEASES)
    if unknown:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: no such release: {', '.join(unknown)}")
    marks = {name: [pytest.mark.slow] if name in slow else [] for name in wanted}
    for name in set(wanted) - set(asked()):
        marks[name].append(pytest.mark.skip(reason=NOT_ASKED))
    parameters = [pytest.param(name, id=name, marks=marks[name]) for name in wanted]
    metafunc.parametrize("release", parameters, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        marker = item.get_closest_marker("slurm")
        if callspec is not None and str(callspec.params.get("release")).startswith("sim-"):
            continue  # the same suite on SimSlurm: no test of a real one
        if callspec is not None and callspec.params.get("release") in RELEASES:
            told(item, callspec.params["release"])
        elif marker and len(marker.args) == 1:  # a test with clusters of its own, parametrised by itself
            release = next((name for name, word in RELEASES.items() if marker.args[0] in (name, word)), None)
            if release is None:
                raise pytest.UsageError(f"{item.nodeid}: no such release: {marker.args[0]}")
            told(item, release)
            if release not in asked():
                item.add_marker(pytest.mark.skip(reason=NOT_ASKED))


def _remove_orphans() -> None:
    """Clusters of test sessions that were killed: their names hold the session's pid."""
    for word in re.findall(r"name=(t(\d+)-\S+)", tool("list").stdout):
        name, pid = word
        if not Path(f"/proc/{pid}").exists():
            tool("down", "--name", name)


@pytest.fixture(scope="session")
def _cluster_of_session() -> Iterator[Callable[[str], Minicluster]]:
    clusters: dict[str, Minicluster] = {}
    _remove_orphans()

    def get(release: str) -> Minicluster:
        if release not in clusters:
            name = f"t{os.getpid()}-{release}"
            clusters[release] = Minicluster.up(name, release, "--nodes", "8", "--gpus", "4")
        return clusters[release]

    yield get
    for cluster in clusters.values():
        cluster.down()


@pytest.fixture
def minicluster(release: str, _cluster_of_session: Callable[[str], Minicluster]) -> Minicluster:
    """The session's cluster of that release: 8 nodes of 4 slots, nothing running."""
    cluster = _cluster_of_session(release)
    cluster.reset()
    return cluster


@pytest.fixture
def make_minicluster(release: str) -> Iterator[Callable[..., Minicluster]]:
    """`make_minicluster("--nodes", "2", "--dbd")`: a cluster of the test's own."""
    made: list[Minicluster] = []

    def make(*options: str) -> Minicluster:
        made.append(Minicluster.up(f"t{os.getpid()}-own{len(made)}-{release}", release, *options))
        return made[-1]

    yield make
    for cluster in made:
        cluster.down()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = getattr(item, "funcargs", {}).get("minicluster")
    if report.failed and isinstance(cluster, Minicluster):
        log = cluster.dir / "log" / "slurmctld.log"
        if log.exists():
            lines = log.read_text(errors="replace").splitlines()[-40:]
            report.sections.append((f"end of slurmctld.log ({cluster.release})", "\n".join(lines)))
    return report


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A directory that other users reach too."""
    with tempfile.TemporaryDirectory(prefix="pal-shapes-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        yield Path(home)
