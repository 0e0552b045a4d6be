"""Hundreds that may be moved at once, and two palds of which one leads: the same few moves, each made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from pal_slurm.daemon.round import Round
from pal_slurm.model import Action, Decision, EditKind, Ending, MoveTerms, Reason
from pal_slurm.sim.daemon import SimPald
from pal_slurm.sim.slurm.manners import Manners, requeues
from tests.moves_faults import STATES, told
from tests.moving import QUICK_MOVES, Wanted, moves_of, there
from tests.simpald import House

Make = Callable[..., House]
LONG_S = 50_000.0


def both_live(house: House, other: SimPald, seconds: float) -> None:
    end = house.now + seconds
    while house.now < end:
        house.live(0.5)
        other.run_until(house.now)


def requeued(house: House, job: int) -> int:
    return sum(update.asked.requeue and update.target == str(job) for update in house.journal)


def test_of_two_palds_one_moves_a_job_and_the_other_looks_on(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    job = house.submit("--comment=pal:move", "--gres=gpu:2", runs=LONG_S, manners=Manners(3.0))
    house.live(5)
    other = house.another("other")
    Wanted(house).move(job, there("n3", 1, 3))
    both_live(house, other, 30)
    assert house.where(job) == {"n3": (1, 3)} and requeued(house, job) == 1
    assert [move.ending for move in moves_of(house, job)] == [Ending.MOVED]
    other.pald.close()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("release", ["26.05", pytest.param("24.11", marks=pytest.mark.slow)])
def test_when_the_one_that_leads_is_killed_in_the_middle_of_a_move_the_other_goes_on_with_it(
    make_house: Make, state: str, release: str
) -> None:
    house = make_house(release=release, **QUICK_MOVES)
    mover = STATES[state](house)
    other = house.another("other")
    other.run_until(house.now + 0.2)  # it stands by
    house.kill()
    house.pald = other
    house.live(300)
    # The other one leads half a minute later at the soonest: a lease of that time may have started the job meanwhile.
    late = ("warned", "waiting", "turning", "closed", "kept")
    comes = "runs where it was, not" if state == "silent" else "runs" if state in late else "runs there"
    assert told(mover).startswith(comes)
    assert requeued(house, mover.job) <= 1


@pytest.mark.slow
def test_of_five_hundred_that_could_all_be_moved_a_few_go_at_a_time_and_each_once(make_house: Make) -> None:
    house = make_house(count=250, **{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], **LIMITS}})
    jobs = [house.submit(*ASKS, runs=LONG_S, manners=ANSWERS, user=f"u{n % 50}") for n in range(500)]
    while any(house.state(job) != "RUNNING" for job in jobs):
        house.live(5)
    used = {node for job in jobs for node in house.where(job)}
    free = [(f"n{n}", slot) for n in range(1, 251) if f"n{n}" not in used for slot in range(4)]
    targets = dict(zip(jobs, free, strict=False))
    assert len(targets) == 500, "packed: half of the nodes are empty"

    def proposes(round: Round) -> list[Decision]:
        begun = {move.job for move in house.pald.pald.cycle.movers.repo.since(0.0)}
        terms = MoveTerms(60.0, 600.0, 1.2)
        return [
            Decision(job, None, Action.MOVE, Reason.BETTER_GPUS, there(*where), 1.0, terms=terms)
            for job, where in targets.items()
            if job not in begun
        ]

    house.pald.pald.cycle.movers.proposes = proposes
    most = 0
    while len(house.pald.pald.cycle.movers.repo.since(0.0)) < 500 or house.pald.pald.cycle.movers.repo.open():
        house.live(2)
        most = max(most, len(house.pald.pald.cycle.movers.repo.open()))
    ended = Counter(move.ending for move in house.pald.pald.cycle.movers.repo.since(0.0))
    assert most == 8 and ended == {Ending.MOVED: 500}
    assert all(house.where(job) == {node: (slot,)} for job, (node, slot) in targets.items())
    asked = [intent for intent in house.intents() if intent.edit.kind is EditKind.WARN]
    assert len(asked) == 500 and {house.job(job).record.restarts for job in jobs} == {1}


LIMITS = {"per_user": 10_000, "per_cluster": 10_000}
ASKS = ("--comment=pal:move=USR1@30", "--gres=gpu:1")
ANSWERS = Manners(0.5, 1.0, requeues)
