"""One move of a running job, from the intent to what it brought. In: a decision, the job as it ran. Out: Move.

What the operation's steps rest on stands here, so that a pald that starts anew goes on by what was true at the
beginning: how often the job had been requeued, where it ran, what it asked for, its nice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pal_slurm.model.job import Request
from pal_slurm.model.placement import Placement


class Ending(StrEnum):
    """How a move ended; the job runs or is over by itself after each of them."""

    MOVED = "moved"  # it runs where it was meant to
    STOPPED = "stopped"  # it is back in the queue, as it was meant to
    ELSEWHERE = "elsewhere"  # it was requeued, and runs on other GPUs than meant
    STAYED = "stayed"  # it was never requeued: it runs on where it ran
    ENDED = "ended"  # it ended, by itself or by its user's hand


@dataclass(frozen=True, slots=True)
class Move:
    job: int
    submit: int  # of its first run, which its later ones are known by
    user: str
    restarts: int  # before
    old: Placement
    original: Request  # as its user made it
    began_at: float
    operation: int = 0  # of the ledger
    app: str | None = None
    model: str = ""
    target: Placement | None = None  # none: the queue, which is called a stop
    signal: str = ""  # sent first
    to_script: bool = False
    ahead_s: int = 0  # what it then has
    unanswered: bool = False  # its user said that it is requeued also where it does not answer
    time_limit_s: int | None = None  # as it ran; none: no limit, or not known
    cpus: int = 0  # that it held; 0: not known
    mem_mb: int = 0  # the same, on each node
    partitions: tuple[str, ...] = ()  # that it ran in
    nice: int = 0  # as its user has it
    ahead: int | None = None  # the nice that keeps its place in the queue; none: nobody waits
    fence: tuple[str, ...] = ()  # nodes that are kept from others meanwhile; none: nobody waits who could take its GPUs
    partner: int | None = None  # the job whose GPUs it takes, while that one takes its own, or those of another one
    further: tuple[int, ...] = ()  # and further ones whose GPUs it takes
    ring: tuple[int, ...] = ()  # all that exchange their GPUs, itself first, then those whose GPUs it takes
    makes_room_for: int | None = None
    cost_s: float = 0.0  # reckoned: what it loses
    gain_s: float = 0.0  # reckoned: what it wins over the time that counts, cost not taken off
    step_before: float | None = None  # by the one equation
    step_after: float | None = None
    handed: str = ""  # why its place is the planner's to find, as any waiting job's
    stopped_at: float | None = None  # seen: its old run was over
    started_at: float | None = None  # Slurm's own word: its new run began
    ended_at: float | None = None  # the operation
    ending: Ending | None = None
    said: str = ""
    unasked: bool = False  # it ended before the job was told anything
    real_cost_s: float | None = None  # measured: steps not done in between, or the time between two runs
    real_gain_s: float | None = None  # measured, over the same time as `gain_s`

    @property
    def gpus(self) -> int:
        return self.old.n_gpus

    @property
    def others(self) -> tuple[int, ...]:
        """Who else exchanges; the one whose GPUs it takes first."""
        return self.ring[1:] or (() if self.partner is None else (self.partner,))

    @property
    def partners(self) -> tuple[int, ...]:
        """All whose GPUs it takes."""
        return () if self.partner is None else (self.partner, *self.further)

    @property
    def dead_s(self) -> float | None:
        """Between its two runs."""
        if self.stopped_at is None or self.started_at is None:
            return None
        return max(0.0, self.started_at - self.stopped_at)
