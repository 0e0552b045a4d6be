"""Edits on their way: what slurmctld was not ready for is sent again, and what nobody answered is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Job, Outcome, Plain, Renew
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.edits.apply import NOT_NOW, PAUSES_S, Heard, apply
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.port import Capabilities
from tests.builders import NOW, leased

UNTIL = NOW + 600


class Slurmctld:
    """It takes begin times only, each when its table says: at the first time of asking (0), the second ..."""

    def __init__(self, jobs: int, late: dict[int, int] | None = None) -> None:
        self.jobs = {number: leased(number) for number in range(1, jobs + 1)}
        self.late = late or {}
        self.sent: list[list[int]] = []
        self.reads = 0
        self.silent_at_read: int | None = None
        self.heard = Heard("")

    def able(self) -> tuple[Capabilities, bool]:
        return capabilities_of("26.05.5"), True

    def now(self) -> float:
        return NOW

    def records(self, ids: Iterable[int]) -> list[Job]:
        self.reads += 1
        if self.reads == self.silent_at_read:
            raise SlurmUnavailable("slurmctld hangs")
        return [self.jobs[number] for number in dict.fromkeys(ids) if number in self.jobs]

    def send(self, ready: Sequence[Ready]) -> list[Heard]:
        self.sent.append([item.edit.job for item in ready])
        return [self.take(item) for item in ready]

    def take(self, item: Ready) -> Heard:
        number = item.edit.job
        if self.late.get(number, 0) >= len(self.sent):
            return Heard(f"slurm_update error: {NOT_NOW}")
        if self.heard == Heard(""):
            self.jobs[number] = replace(self.jobs[number], eligible=item.asked.begin or NOW)
        return self.heard


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("pal_slurm.slurm.edits.apply.time.sleep", slept.append)
    return slept


def renewals(number: int) -> list[Renew]:
    return [Renew(job, until=UNTIL) for job in range(1, number + 1)]


def test_only_what_was_not_taken_is_sent_again(pauses: list[float]) -> None:
    slurm = Slurmctld(3, late={2: 2, 3: 1})
    assert [r.outcome for r in apply(renewals(3), slurm, 10)] == [Outcome.DONE] * 3
    assert slurm.sent == [[1, 2, 3], [2, 3], [2]]
    assert pauses == [0.0, *PAUSES_S[:2]]


def test_a_batch_of_any_size_insists_for_a_second_at_most(pauses: list[float]) -> None:
    slurm = Slurmctld(100, late=dict.fromkeys(range(1, 101), 1000))
    results = apply(renewals(100), slurm, 100)
    assert {r.outcome for r in results} == {Outcome.REFUSED} and all(NOT_NOW in r.said for r in results)
    assert len(slurm.sent) == 1 + len(PAUSES_S) and sum(pauses) < 1.0


def test_another_refusal_stands() -> None:
    slurm = Slurmctld(1)
    slurm.heard = Heard("Invalid node name specified")
    (result,) = apply([Plain(1)], slurm, 10)
    assert result.outcome is Outcome.REFUSED and "Invalid node name" in result.said
    assert slurm.sent == [[1]]


def test_the_first_batch_without_an_answer_ends_the_writing() -> None:
    slurm = Slurmctld(6)
    slurm.silent_at_read = 3  # before the second batch
    results = apply(renewals(6), slurm, 2)
    assert [r.outcome for r in results] == [Outcome.DONE] * 2 + [Outcome.UNKNOWN] * 4
    assert {r.said for r in results[2:]} == {"nothing was written: slurmctld hangs"}
    assert slurm.sent == [[1, 2]]


def test_what_was_sent_and_cant_be_read_again_is_unknown() -> None:
    slurm = Slurmctld(4)
    slurm.silent_at_read = 2  # after the first batch
    results = apply(renewals(4), slurm, 2)
    assert [r.outcome for r in results] == [Outcome.UNKNOWN] * 4
    assert [r.said.partition(":")[0] for r in results] == ["written, and can't be read again"] * 2 + [
        "nothing was written"
    ] * 2
    assert slurm.sent == [[1, 2]]


def test_silence_is_no_refusal() -> None:
    slurm = Slurmctld(1)
    slurm.heard = Heard("", answered=False)
    (result,) = apply([Plain(1)], slurm, 10)
    assert result.outcome is Outcome.UNKNOWN and "may still act on it" in result.said


def test_edits_that_are_refused_unsent_need_no_second_read() -> None:
    slurm = Slurmctld(0)
    assert [r.outcome for r in apply(renewals(2), slurm, 10)] == [Outcome.GONE] * 2
    assert slurm.sent == [] and slurm.reads == 1
