"""scripts/fuzz --hours: whoever ends it, and however, nothing that it found is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.judge import Verdict
from tests.fuzz.mutants import broken
from tests.fuzz.night import Night, last
from tests.fuzz.script import read
from tests.fuzz.trial import Court
from tests.slurm.minicluster import wait_for

ROOT = Path(__file__).parents[2]
BROKEN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where these tests themselves run in the background
from tests.fuzz.__main__ import main
from tests.fuzz.mutants import broken
with broken("lease-of-an-hour"):
    sys.exit(main(["--hours", "1", "--into", sys.argv[1]]))
"""


@pytest.fixture
def night(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """In which a pald of leases that are too long fails at once."""
    words = [sys.executable, "-c", BROKEN, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        yield run
        run.kill()


def scripts(into: Path) -> list[Path]:
    return sorted(into.glob("[!.]*.txt"))


def test_a_night_that_is_killed_loses_nothing(night: subprocess.Popen[str], tmp_path: Path, at: Court) -> None:
    wait_for(lambda: bool(scripts(tmp_path)), "a failing script")
    night.kill()
    night.wait()
    report = last(tmp_path)
    assert report is not None and report.worlds == report.next >= 1
    (path,) = scripts(tmp_path)[:1]
    rule, _, seed = path.stem.rpartition("-")
    assert int(seed) in report.failed[rule]
    with broken("lease-of-an-hour"):
        assert rule in [verdict.rule for verdict in at.tried(read(path.read_text()))]
    again = Night(at, tmp_path, None)
    again.run(lambda: again.report.worlds < report.worlds + 2)
    assert again.end().next == report.next + 2 and again.report.failed == report.failed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_night_that_is_broken_off_says_what_it_found(
    night: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    wait_for(lambda: bool(scripts(tmp_path)), "a failing script")
    night.send_signal(number)
    out, _ = night.communicate()
    report = last(tmp_path)
    assert night.returncode == 130 and report is not None
    assert f"\n{report}\n" in out and f"goes on from seed {report.next}" in out


class Last:
    """Its end comes upon the very moment of a signal."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_a_finalizer_loses_ends_the_night_with_that_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(*_: object) -> list[Verdict]:
        Last()
        return []

    monkeypatch.setattr(Court, "tried", tried)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(["--hours", "1", "--into", str(tmp_path)]) == 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    report = last(tmp_path)
    assert report is not None and report.worlds == 1


def test_a_script_is_kept_before_it_is_short(at: Court, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.fuzz.night.shrink", killed)
    night = Night(at, tmp_path, 0)
    with broken("lease-of-an-hour"), pytest.raises(KeyboardInterrupt):
        night.run(lambda: True)
    report = last(tmp_path)
    assert report is not None and len(scripts(tmp_path)) == 1 == sum(map(len, report.failed.values()))
