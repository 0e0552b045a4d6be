"""A fault of ours ends nothing, is told (its traceback once), and what repeats it comes at growing intervals."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from pal_slurm.daemon.faults import LONGEST_PAUSE_S, PLACES, Faults
from pal_slurm.errors import NotLeader, StoreGone

DAEMON = Path(__file__).parents[2] / "pal_slurm" / "daemon"


def fail(faults: Faults, text: str = "x") -> None:
    with faults.contained("observing"):
        raise RuntimeError(text)


def test_a_fault_is_counted_and_told_and_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []
    faults = Faults(counted.append)
    for _ in range(3):
        fail(faults, "job \x1b[2J\n<0>fake")
    assert counted == ["observing"] * 3
    assert caplog.text.count("Traceback") == 1
    said = [r.message for r in caplog.records if r.message.startswith("observing: a fault of ours, RuntimeError: ")]
    assert len(said) == 2
    assert re.search(r": job  \[2J <0>fake \(test_daemon_faults\.py:\d+\)$", said[0])
    assert said[1].endswith(" (2 times by now)")
    assert all(r.levelno == logging.ERROR and r.message.isprintable() for r in caplog.records)
    assert faults.note.startswith("a fault of pald, at least 2 times since its start, the last in observing: ")


@pytest.mark.parametrize("error", [NotLeader("x"), StoreGone("x"), MemoryError(), KeyboardInterrupt()])
def test_what_means_something_passes(error: BaseException) -> None:
    faults = Faults()
    with pytest.raises(type(error)), faults.contained("observing"):
        raise error
    assert not faults.total
    assert faults.note == ""


def test_cycles_that_fail_come_at_growing_intervals_and_one_that_does_not_at_once() -> None:
    faults, pauses = Faults(), []
    for _ in range(40):
        faults.cycle_ended(well=False)
        pauses.append(faults.pause_s(5.0))
    assert pauses[:5] == [5.0, 10.0, 20.0, 40.0, LONGEST_PAUSE_S]
    assert max(pauses) == LONGEST_PAUSE_S
    faults.cycle_ended(well=True)
    assert faults.pause_s(5.0) == 0.0


def test_every_place_has_its_series() -> None:
    """Prometheus sees no increase in a series that begins with its first fault."""
    code = "".join(path.read_text() for path in DAEMON.rglob("*.py"))
    named = set(re.findall(r"""(?:contained|happened|Beside|count)\("([^"]+)\"""", code))
    assert named == set(PLACES)


def test_a_row_that_is_refused_is_told_once_with_its_job_and_counted_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counted: list[str] = []
    faults = Faults(counted.append)
    for job in (7, 7, 8, 7):
        faults.row_refused(f"the pin of job {job}", ValueError("no \x1b column"))
    assert counted == ["rows"] * 4 and faults.total == 4
    said = [record.message for record in caplog.records]
    assert [line.partition(" can't")[0] for line in said] == [f"rows: the pin of job {job}" for job in (7, 8)]
    assert "\x1b" not in "".join(said) + faults.note
