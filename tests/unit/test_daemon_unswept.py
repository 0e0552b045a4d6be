"""While a cycle goes on nobody looks for garbage; between cycles it is swept, and does not pile up."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import pal_slurm.daemon.cycle as cycle
from pal_slurm.daemon.unswept import unswept
from pal_slurm.policy import plan
from pal_slurm.policy.planner import Planner
from tests.simpald import House

Make = Callable[..., House]


@contextmanager
def sweeping(on: bool) -> Iterator[None]:
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        yield
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("on", [True, False])
def test_afterwards_it_is_as_it_was_whatever_happened(on: bool) -> None:
    with sweeping(on):
        with pytest.raises(KeyError), unswept():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is on


def test_a_plan_is_made_unswept_and_what_plans_leave_does_not_pile_up(
    make_house: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, swept = make_house(count=1), Counter[bool]()

    def watched(*words: object, **named: object) -> object:
        swept[gc.isenabled()] += 1
        return plan(*words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(cycle, "plan", watched)
    with sweeping(on=True):
        for _ in range(3):
            house.submit("--gres=gpu:4", runs=5000.0)
        house.live(300)
        left = sum(
            type(thing) is Planner for thing in gc.get_objects()
        )  # other tests left things that warn when asked more
    assert swept[False] > 50 and not swept[True]
    assert left < swept[False] / 5
