"""Doing less: pald is paused, or a new pal.yaml has it place no more jobs. In: a round. Out: wishes, until all is free.

Who steps back from `pin` to `shadow` looks after no lease and no pin any more: what he holds is given back first, as by
`palctl undo --all`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pal_slurm.daemon.edits import let_go as hands_off
from pal_slurm.daemon.excluding import given_back
from pal_slurm.daemon.pausing import starts_soon, to_let_go
from pal_slurm.daemon.round import Round, Wish, let_go
from pal_slurm.daemon.undo import fences
from pal_slurm.daemon.writer import Writer
from pal_slurm.model import NOT_SENT

LESS = ("shadow", "exclude")  # these hold no job


def freed(round: Round) -> list[Wish]:
    """In a pause: who waits for us; pins are watched, and taken back where they do not work out."""
    ours = to_let_go(round.snapshot.pending, round.now)
    undos = [wish for wish in round.undos if wish.edit.job not in ours]  # one edit of a job is enough
    free = [Wish(hands_off(job, round.now), job.submit) for job in ours.values()]
    return [*undos, *free, *given_back(round, but=(*undos, *free))]


@dataclass
class SteppingBack:
    why: str = ""  # empty: there is nothing to give back

    def begin(self, before: str, now: str) -> bool:
        """Actuators; whether we hold jobs no more."""
        back = now in LESS and (bool(self.why) or before not in (now, "shadow"))
        self.why = f"actuator is {now} now: all that we held is given back" if back else ""
        return back

    def only_looks(self, actuator: str) -> bool:
        return actuator == "shadow" and not self.why

    def goes_on(self, round: Round, writer: Writer, movers: Collection[int]) -> bool:
        """Whether this cycle was one of giving back. It is over when nothing is left, or nothing more can be done."""
        if not self.why:
            return False
        round.report.end, round.report.note = "paused", self.why
        wishes = _all(round, movers)
        results = writer.write(wishes, round)
        writer.lift(fences(round.snapshot), round)
        if not wishes or (results and not any(let_go(r) or r.said.startswith(NOT_SENT) for r in results)):
            self.why = ""
        return True


def _all(round: Round, movers: Collection[int]) -> list[Wish]:
    """A node list that no pin of ours explains is its user's own, and stays."""
    now, pinned = round.now, {wish.edit.job for wish in round.undos}.union(round.expected, movers)
    waiting = (j for j in round.snapshot.pending if j.waits_for_us(now) or (j.id in pinned and j.pin))
    between = (j for j in round.snapshot.running if j.id in movers and j.completing and j.restarts and j.pin)
    free = [Wish(hands_off(j, now), j.submit) for j in (*waiting, *between) if not starts_soon(j, now)]
    return [*free, *given_back(round, but=free)]
