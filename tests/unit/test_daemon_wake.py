"""What ends a wait, on a clock that only moves when it is told to; the wake file is a real one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

from pal_slurm.daemon.bell import Bell
from pal_slurm.daemon.wake import MOST_BYTES, Waker
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.slurm.port import Pulse, Slurm


class Clock:
    def __init__(self) -> None:
        self.t = 0.0
        self.at: list[tuple[float, Callable[[], object]]] = []

    def now(self) -> float:
        return 1e9 + self.t

    def monotonic(self) -> float:
        return self.t

    def sleep(self, seconds: float) -> None:
        self.t += seconds
        due = [act for when, act in self.at if when <= self.t]
        self.at = [(when, act) for when, act in self.at if when > self.t]
        for act in due:
            act()


class PulseOnly:
    """The one verb of the port that a Waker uses."""

    def __init__(self, *answers: Pulse | SlurmUnavailable) -> None:
        self.answers = list(answers)
        self.asked = 0

    def pulse(self) -> Pulse:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, SlurmUnavailable):
            raise answer
        return answer


def waker(clock: Clock, slurm: PulseOnly, wake_file: Path | None = None) -> Waker:
    w = Waker(clock, cast(Slurm, slurm), wake_file, pulse_s=1.0)
    w.mark()
    return w


QUIET = Pulse(1, 1, 1, 1)


def test_the_interval_ends_a_quiet_wait() -> None:
    clock = Clock()
    assert waker(clock, PulseOnly(QUIET)).wait(0.2, 5.0, lambda: False) == "interval"
    assert 5.0 <= clock.t < 5.2


def test_a_byte_in_the_wake_file_ends_the_wait_at_once(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "wake"
    file.write_bytes(b"")
    w = waker(clock, PulseOnly(QUIET), file)
    clock.at.append((0.7, lambda: file.write_bytes(b".")))
    assert w.wait(0.2, 60.0, lambda: False) == "woken"
    assert clock.t < 0.9


def test_events_do_not_shorten_the_gap_that_spares_slurmctld(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "wake"
    file.write_bytes(b"")
    w = waker(clock, PulseOnly(QUIET), file)
    file.write_bytes(b".")
    assert w.wait(3.0, 60.0, lambda: False) == "woken"
    assert clock.t >= 3.0


def test_a_changed_queue_ends_the_wait() -> None:
    clock = Clock()
    slurm = PulseOnly(QUIET, QUIET, Pulse(2, 1, 2, 9))
    assert waker(clock, slurm).wait(0.1, 60.0, lambda: False) == "queue"
    assert slurm.asked == 3


def test_a_slurmctld_that_does_not_answer_the_pulse_is_no_reason_for_a_cycle() -> None:
    clock = Clock()
    assert waker(clock, PulseOnly(SlurmUnavailable("gone"))).wait(0.1, 4.0, lambda: False) == "interval"


def test_a_signal_ends_the_wait_even_within_the_gap() -> None:
    clock = Clock()
    assert waker(clock, PulseOnly(QUIET)).wait(30.0, 60.0, lambda: clock.t > 1) == "signal"
    assert clock.t < 1.2


def test_a_wake_file_that_has_grown_large_is_emptied(tmp_path: Path) -> None:
    file = tmp_path / "wake"
    file.write_bytes(b"." * ((1 << 20) + 1))
    waker(Clock(), PulseOnly(QUIET), file)
    assert file.stat().st_size == 0


def test_the_wake_file_is_made_for_the_group_to_write_and_kept_short(tmp_path: Path) -> None:
    bell = tmp_path / "wake"
    before = os.umask(0o077)
    try:
        ringer = waker(Clock(), PulseOnly(QUIET), bell)
    finally:
        os.umask(before)
    assert bell.stat().st_mode & 0o777 == 0o660
    bell.write_bytes(b"." * (MOST_BYTES + 1))
    ringer.mark()
    assert (bell.stat().st_size, ringer.seen[0]) == (0, 0)


def test_nothing_is_written_to_what_stands_in_the_wake_file_s_place(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"." * (MOST_BYTES + 1))
    (tmp_path / "link").symlink_to(tmp_path / "large")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        assert waker(Clock(), PulseOnly(QUIET), tmp_path / name).wait(0.2, 1.0, lambda: False) == "interval"
    assert (tmp_path / "large").stat().st_size == MOST_BYTES + 1


def test_a_file_that_grows_no_more_wakes_by_its_time(tmp_path: Path) -> None:
    """job_submit.lua writes over its first byte, where it may not empty it."""
    bell, clock = tmp_path / "wake", Clock()
    bell.write_bytes(b"...")
    os.utime(bell, (1, 1))
    ringer = waker(clock, PulseOnly(QUIET), bell)
    clock.at.append((1.0, lambda: bell.write_bytes(b"...")))
    assert ringer.wait(0.2, 60.0, lambda: False) == "woken"


def test_a_wake_file_that_cant_be_made_stops_nothing(tmp_path: Path) -> None:
    assert waker(Clock(), PulseOnly(QUIET), tmp_path / "none" / "wake").wait(0.2, 1.0, lambda: False) == "interval"


def test_the_bell_hears_a_byte_and_forgets_what_was_rung_before_it_listened(tmp_path: Path) -> None:
    file, bell = tmp_path / "wake", Bell()
    file.write_bytes(b"")
    assert bell.listen(file)
    ring(file)
    assert bell.wait(30.0)
    ring(file)
    assert bell.listen(file)
    assert not bell.wait(0.0)
    bell.close()


def test_the_bell_follows_a_file_that_was_made_anew(tmp_path: Path) -> None:
    file, bell = tmp_path / "wake", Bell()
    assert not bell.listen(file) and not bell.wait(0.0)
    file.write_bytes(b"")
    assert bell.listen(file)
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "other").replace(file)
    assert bell.listen(file)
    ring(file)
    assert bell.wait(30.0)
    bell.listen(None)
    assert not bell.wait(0.0)


def test_a_ring_within_the_gap_is_kept_for_its_end(tmp_path: Path) -> None:
    file, clock = tmp_path / "wake", Clock()
    file.write_bytes(b"")
    w = waker(clock, PulseOnly(QUIET), file)
    w.bell = Bell()
    w.mark()
    ring(file)
    assert w.wait(3.0, 60.0, lambda: False) == "woken"
    assert 3.0 <= clock.t < 3.2


def ring(file: Path) -> None:
    """As job_submit.lua does."""
    with file.open("ab") as bell:
        bell.write(b".")
