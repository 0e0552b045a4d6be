"""Who runs which test when pytest runs in several processes (`-n`). In: node ids. Out: an order for each worker.

Tests on real Slurm mostly wait, so there are more workers than cores. One worker runs what needs no Slurm. One begins
with what only computes, with low priority: it has what the others leave of the cores, and never makes a Slurm late.
The others run real Slurm, what takes longest first. Who has nothing left to do takes from the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping, Sized
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

LIVE = "tests/slurm/"
NO_SLURM, COMPUTES = "gw0", "gw1"  # workers
WORLDS = "tests/fuzz/test_worlds.py"  # each takes as long as a module of others: whoever is done early takes one
HEAVY = (WORLDS, "tests/property/", "tests/conformance/", "tests/golden/", "tests/docs/", "tests/packaging/")
_RELEASE = re.compile(r"\[(\d\d\.\d\d)\b")
_LONG = re.compile(r"/test_(pald|profile)_")


def unit(nodeid: str) -> str:
    """Tests that one worker runs in a row: a module, on one release; long ones and drawn worlds one by one."""
    module, _, name = nodeid.partition("::")
    if module == WORLDS:
        return nodeid
    if not module.startswith(LIVE):
        return module
    release = found[1] if (found := _RELEASE.search(name)) else ""
    words = [module, release]
    if _LONG.search(module):
        words.append(name.partition("[")[0])
    return " ".join(words)


def choice(worker: str, queue: Mapping[str, Sized]) -> str:
    """What it is to run next: long ones first, then by their number."""

    def rank(scope: str) -> tuple[bool, bool, int]:
        return (scope.startswith(HEAVY) != (worker == COMPUTES), not _LONG.search(scope), -len(queue[scope]))

    own = [scope for scope in queue if scope.startswith(LIVE) != (worker in (NO_SLURM, COMPUTES))]
    return min(own or queue, key=rank)


def scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class Spread(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            scope = choice(node.gateway.id, self.workqueue)
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return Spread(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return scheduler(config, log) if config.getoption("dist") == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What only computes stands back. Only root may come forward again."""
    if "PYTEST_XDIST_WORKER" in os.environ and os.geteuid() == 0:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 10 if item.nodeid.startswith(HEAVY) else 0)
    return (yield)
