"""What a plan is, and what one must know. In: a walk's findings. Out: Plan: who starts, and why the others wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pal_slurm.model import Action, Decision, Job, Placement, RunTimes, WideJobs
from pal_slurm.policy.earmark import Earmark
from pal_slurm.policy.easy import Reserved
from pal_slurm.policy.entitlement.precedence import DueNow, OwedFirst
from pal_slurm.policy.memory import NO_MEMORY, Memory

if TYPE_CHECKING:
    from pal_slurm.policy.composition import Composition


Room = tuple[int, int, int]  # GPUs, CPUs, MB


class KeptForWaiting(NamedTuple):
    """What moves leave to jobs that wait."""

    room: Mapping[int, Room]  # by row, all that those may have who run beyond these starts
    promised: float  # the first start for which something is kept, by time limits
    expected: float  # the same by what jobs probably run
    earmark: Earmark | None  # nodes that small jobs leave to one that waits


NOTHING_KEPT = KeptForWaiting({}, math.inf, math.inf, None)


def nobody(job: Job, since: float) -> bool:
    """No job starts without our leave."""
    return False


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a plan must know beside the queue; the daemon fills it from its ledger."""

    released: Mapping[int, Placement] = field(default_factory=dict)  # job id -> pinned, not started yet
    rivals: Callable[[Job, float], bool] = nobody  # whether jobs that aren't leased have been about since then
    lapsed: frozenset[int] = frozenset()  # whose lease ran out: leased again where Slurm can't start them
    outside: frozenset[int] = frozenset()  # rollout: ours, but not yet to be placed
    refused: frozenset[int] = frozenset()  # whose pin was refused: Slurm's, in their turn
    run_times: RunTimes = field(default_factory=RunTimes, compare=False)  # how long jobs run
    wide: WideJobs = field(default_factory=WideJobs, compare=False)  # that have ended lately
    alone: bool = False  # no Slurm beside us that starts jobs otherwise than they are asked for: the bare simulator
    due: DueNow | None = None  # what each job is owed, where an entitlement counts
    shares: bool = False  # two jobs may have one GPU
    accounts: bool = True  # nobody can name one that is not his

    def ordered(self, composition: Composition) -> Composition:
        """Who is owed most comes first; the order says who does among equals."""
        if self.due is None:
            return composition
        base = composition.order
        return replace(composition, order=OwedFirst(self.due.places(base, self.released), base))


NOTHING_SPECIAL = Circumstances()


@dataclass(frozen=True)
class Plan:
    starts: tuple[Decision, ...]  # in the order in which they were decided: who starts, pinned or plain
    reserved: tuple[Reserved, ...]  # what is kept for jobs that wait, the head of the queue first
    wake_at: float  # when somebody's patience ends; infinity: it is all up to events
    _all: Callable[[], Iterator[Decision]] = field(repr=False, compare=False)
    _memory: Callable[[], Memory] = field(default=lambda: NO_MEMORY, repr=False, compare=False)
    kept: KeptForWaiting = field(default=NOTHING_KEPT, repr=False, compare=False)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One or more for each waiting GPU job, in the order; worked out when asked for, before the next event."""
        return tuple(self._all())

    def behind(self, first: Iterable[Decision]) -> Plan:
        """The same with these decisions ahead of its own."""
        first, rest = tuple(first), self.decisions
        return replace(self, starts=(*first, *self.starts), _all=lambda: iter((*first, *rest)))

    @cached_property
    def memory(self) -> Memory:
        """What the next plan is to be given; to be asked for before the next event too."""
        return self._memory()


STARTS = (Action.START, Action.PLAIN)
