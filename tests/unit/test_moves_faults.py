"""Whatever goes wrong in a move: the job runs, or ended by itself; never held, never on GPUs that nobody asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from pal_slurm.sim.slurm.manners import Manners, requeues
from tests.moves_faults import FAULTS, RELEASES, STATES, cell
from tests.moving import QUICK_MOVES, Wanted, moves_of, there
from tests.simpald import Crash, House
from tests.unit.test_daemon_crashes import Fuse, armed

ALWAYS = {
    "nothing",
    "pald dies for ten minutes",
    "palctl undo --all, pald dead",
    "slurmctld killed",
    "admin holds it for a minute",
}
PAGE = Path(__file__).parents[2] / "docs" / "moves.md"
CELLS = [
    pytest.param(state, fault, release, marks=[] if fault in ALWAYS and release == "26.05" else [pytest.mark.slow])
    for fault in FAULTS
    for state in STATES
    for release in RELEASES
]


@cache
def written() -> dict[tuple[str, str], str]:
    """What the page says, by state and fault."""
    rows = [[word.strip() for word in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if "|" in line]
    told = {row[0]: row[1:] for row in rows if row and row[0] in FAULTS}
    return {(state, fault): said[number] for fault, said in told.items() for number, state in enumerate(STATES)}


@pytest.mark.every(3)
@pytest.mark.parametrize(("state", "fault", "release"), CELLS)
def test_a_mover_is_never_lost_and_the_page_says_what_becomes_of_it(state: str, fault: str, release: str) -> None:
    said = cell(state, fault, release)
    ends = {
        "user cancels": "cancelled",
        "job ends": "completed" if state in ("warned", "silent", "saving", "closed", "runs") else "runs",
    }
    ends |= {"admin holds it for a minute": "waits" if state == "kept" else "runs"}
    assert said.startswith(ends.get(fault, "runs"))
    assert said == written()[state, fault]


def a_move(house: House) -> int:
    """Asked to save, requeued by itself, pinned; ahead of a head that waits."""
    words = ("--comment=pal:move=USR1@60", "--gres=gpu:2")
    job = house.submit(*words, runs=5000.0, manners=Manners(1.0, 2.0, requeues))
    house.live(4)
    house.submit("-N4", "--gres=gpu:4")
    house.live(2)
    Wanted(house).move(job, there("n3", 1, 3))
    house.live(20)
    return job


@pytest.mark.parametrize("part", [pytest.param(n, marks=[pytest.mark.slow] if n % 4 else []) for n in range(8)])
def test_a_crash_at_any_write_of_a_move_leaves_nothing_half(
    part: int, make_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    house, fuse = make_house(**QUICK_MOVES), Fuse()
    with armed(house, fuse, monkeypatch):
        a_move(house)
    assert house.where(1) == {"n3": (1, 3)} and house.job(1).record.nice == 0
    for at in range(1 + part, fuse.passed + 1, 8):
        house = make_house(**QUICK_MOVES)
        with suppress(Crash), armed(house, Fuse(at), monkeypatch):
            a_move(house)
        house.restart()
        house.live(200)
        found = house.job(1)
        assert found.record.state == "RUNNING", f"crash at write {at}: {found.record.state} {found.record.reason}"
        assert sum(map(len, house.where(1).values())) == 2 and found.record.nice in (None, 0), at
        assert house.pald.pald.cycle.movers.repo.open() == [], f"crash at write {at}: a move goes on for ever"
        assert len(moves_of(house, 1)) <= 1, at
