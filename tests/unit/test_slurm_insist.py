"""What slurmctld was not ready for is sent again, that alone, and not for ever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pal_slurm.slurm.edits.insist import NOT_NOW, PAUSES_S, insist


class Slurmctld:
    """It is ready for an update at the time that its table says: 0 the first, 1 the second ..."""

    def __init__(self, ready: dict[str, int]) -> None:
        self.ready = ready
        self.said: dict[str, str] = {}
        self.sent: list[list[str]] = []

    def take(self, updates: Sequence[str]) -> None:
        for update in updates:
            late = self.ready[update] > len(self.sent)
            self.said[update] = f"slurm_update error: {NOT_NOW}" if late else ""
        self.sent.append(list(updates))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("pal_slurm.slurm.edits.insist.time.sleep", slept.append)
    return slept


def test_only_what_was_not_taken_is_sent_again(pauses: list[float]) -> None:
    ctld = Slurmctld({"a": 0, "b": 2, "c": 1})
    insist(["a", "b", "c"], ctld.take, ctld.said.__getitem__)
    assert ctld.sent == [["a", "b", "c"], ["b", "c"], ["b"]]
    assert set(ctld.said.values()) == {""} and pauses == list(PAUSES_S[:2])


def test_a_batch_of_any_size_insists_for_a_second_at_most(pauses: list[float]) -> None:
    updates = [str(n) for n in range(128)]
    ctld = Slurmctld(dict.fromkeys(updates, 1000))
    insist(updates, ctld.take, ctld.said.__getitem__)
    assert len(ctld.sent) == 1 + len(PAUSES_S) and sum(pauses) < 1.0


def test_another_refusal_stands(pauses: list[float]) -> None:
    sent: list[Sequence[str]] = []
    insist(["a"], sent.append, lambda _: "Invalid node name specified")
    assert sent == [["a"]] and pauses == []
