"""One compose cluster for the whole run, as new for each test. scripts/test-compose starts it and runs these tests;
without it (PAL_COMPOSE_PROJECT names the project) there are none to collect."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from tests.compose.hosts import Hosts

NODES = int(os.environ.get("NODES") or 4)
collect_ignore_glob = [] if os.environ.get("PAL_COMPOSE_PROJECT") else ["test_*.py"]


@pytest.fixture(scope="session")
def _session_hosts() -> Hosts:
    return Hosts(os.environ["PAL_COMPOSE_PROJECT"], NODES)


@pytest.fixture
def hosts(_session_hosts: Hosts) -> Hosts:
    _session_hosts.reset()
    return _session_hosts


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    hosts = getattr(item, "funcargs", {}).get("hosts")
    if report.failed and isinstance(hosts, Hosts):
        for host in ("pald", "slurmctld"):
            report.sections.append((f"end of {host}'s log", "\n".join(hosts.log(host).splitlines()[-40:])))
    return report
