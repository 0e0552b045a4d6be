"""An honest count of the tests on real Slurm. In: reports, also of other processes (`-n`). Out: a line per release.

A test of a real Slurm that is skipped although its release was asked for fails the run.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.slurm.minicluster import RELEASES

NOT_ASKED = "not in PAL_TEST_RELEASES"
_KEY = "slurm"
_OUTCOMES = ("passed", "failed", "skipped")


def told(item: pytest.Item, release: str) -> None:
    """That test runs on that release: its reports say so, in whatever process they are read."""
    item.user_properties.append((_KEY, release))


class Counted:
    """A plugin of the process that sums up."""

    def __init__(self) -> None:
        self.of: dict[str, Counter[str]] = {}
        self.unasked: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        release = dict(report.user_properties).get(_KEY)
        if release is None or not (report.when == "call" or report.outcome != "passed"):
            return
        self.of.setdefault(str(release), Counter())[report.outcome] += 1
        if report.skipped and NOT_ASKED not in str(report.longrepr):
            self.unasked.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unasked and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.of:
            return
        terminalreporter.section("real Slurm")
        for release in RELEASES:
            counts = self.of.get(release, Counter())
            said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in _OUTCOMES)
            terminalreporter.write_line(f"Slurm {release}: {said}")
        for nodeid in self.unasked:
            terminalreporter.write_line(f"FAILED (skipped, but PAL_TEST_RELEASES asks for it): {nodeid}", red=True)
