"""Decisions are as recorded, where a change is not meant to change them (plans.py)."""

from __future__ import annotations

import pytest

from tests.golden import plans

BLOCK = plans.SITES // 10


@pytest.mark.every(10)
@pytest.mark.parametrize("block", range(10))
def test_plans_of_drawn_snapshots_are_as_recorded(block: int) -> None:
    """200 of them at each push; `python -m tests.golden.plans --against HEAD` shows what differs."""
    found = plans.differences(range(block * BLOCK, (block + 1) * BLOCK))
    assert not found, f"{len(found)} plans differ, the first at site.cycle {next(iter(found))}"


def test_the_recording_has_all_kinds_of_decisions() -> None:
    """A sample: the first sites have starts, waits of most reasons, moves, exclusions and memory."""
    words = " ".join(text for _, text in plans.plans(range(30)))
    kinds = ('"pin"', '"plain"', '"wait"', '"move"', "better-gpus", "makes-room", "shares", "behind-head",
             "better-gpus-soon", "better-pool-soon", "past-planned-start", "not-eligible", "foreign")  # fmt: skip
    assert not [kind for kind in kinds if kind not in words]
