"""Moves in a SimSlurm's house. In: a job, a target. Out: pald moves it; where it ran, and what Slurm was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pal_slurm.daemon.round import Round
from pal_slurm.model import Action, Decision, Move, MoveTerms, Placement, Reason
from tests.simpald import House

QUICK_MOVES: dict[str, Any] = {
    "actuator": "move",
    "moves": {"mode": "asked", "first_s": 0, "last_s": 0, "share": 0.5, "per_job": 10},
}


def there(node: str, *slots: int) -> Placement:
    return Placement((node,), (slots,), exact=True)


@dataclass
class Wanted:
    """What the planner would propose, once each."""

    house: House
    decisions: list[Decision] = field(default_factory=list)

    def __call__(self, round: Round) -> list[Decision]:
        now, self.decisions = self.decisions, []
        return now

    def move(self, job: int, to: Placement | None, partner: int | None = None) -> None:
        action = Action.STOP if to is None else Action.MOVE
        terms = MoveTerms(60.0, 600.0, 1.2, partner)
        self.decisions.append(Decision(job, None, action, Reason.BETTER_GPUS, to, 1.0, terms=terms))
        self.house.pald.pald.cycle.movers.proposes = self


def moves_of(house: House, job: int) -> list[Move]:
    return house.pald.pald.cycle.movers.repo.of_job(job)


def the_move(house: House, job: int) -> Move:
    (move,) = moves_of(house, job)
    return move
