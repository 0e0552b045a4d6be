"""Moves on their way. In: a cycle's round, decisions about running jobs. Out: their edits written, what is found kept.

machine.py says what comes next of each; here Slurm, the ledger and the guard are asked and told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from pal_slurm.config import Config
from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.beside.resuming import Resuming
from pal_slurm.daemon.moves.budget import WEEK_S, losing, rules_of_moves
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.fences import over
from pal_slurm.daemon.moves.lives import Lives
from pal_slurm.daemon.moves.machine import first_step, next_step
from pal_slurm.daemon.moves.measuring import measured
from pal_slurm.daemon.moves.place import bound_there, closed, holds, taken
from pal_slurm.daemon.moves.record import after, begun_as, seen_now
from pal_slurm.daemon.moves.scene import KEPT_S, RENEW_S, UNSURE_S, Do, Scene
from pal_slurm.daemon.reconcile import Fate, View, judge_pin
from pal_slurm.daemon.round import Round, Wish
from pal_slurm.daemon.writer import Writer
from pal_slurm.guard import Cause, MoveRules, Refusal, Rules, check
from pal_slurm.model import (
    SHARED_LIMITS,
    Action,
    Decision,
    EditKind,
    Ending,
    Fence,
    Intent,
    Job,
    JobRef,
    Move,
    Outcome,
    Pin,
    Placement,
    Reason,
    Request,
    Snapshot,
    Unpin,
    Warn,
)
from pal_slurm.slurm.port import Capabilities
from pal_slurm.store import Ledger, MoveRepo
from pal_slurm.store.samples import JobSample

STOPPED = (
    "moves have stopped by themselves: those of the last week cost more GPU time than they brought; see palctl moves"
)
BOUND_S = 600.0  # what binds a job to where it runs is believed for so long
FAR = "no running job is moved: looks at the queue are so far apart that one would wait long between its two runs"
WAITS_ONLY = (Cause.LEASE_ENDING, Cause.NO_LEASE)


@dataclass
class MoversMemory:
    """What the ledger does not tell."""

    lifted_at: float = 0.0  # fences: who is pinned where one stood is looked at by Slurm only from then on
    bound: dict[int, tuple[float, str]] = field(default_factory=dict)  # jobs that must stay: until when, and why


@dataclass
class Movers:
    repo: MoveRepo
    ledger: Ledger
    writer: Writer
    samples: Callable[[int], Sequence[JobSample]]
    note: str = ""  # for `palctl status`
    costs: Costs = field(default_factory=lambda: Costs(MovesSection()))
    resuming: Resuming | None = None  # who is proven to go on after a requeue; none: nobody
    proposes: Callable[[Round], list[Decision]] | None = None  # instead of what would pay
    going: dict[int, Move] = field(default_factory=dict)  # by job, as of this cycle
    lately: dict[int, Move] = field(default_factory=dict)  # by job, its newest: those that are over among them
    homes: dict[int, Placement] = field(default_factory=dict)  # by job: where it goes instead of its target
    back: dict[int, Placement] = field(default_factory=dict)  # by job: where it ran, for its gathering has fallen
    memory: MoversMemory = field(default_factory=MoversMemory)
    keeping: set[int] = field(default_factory=set)  # jobs whose targets are kept from those that wait
    lives: Lives = field(init=False)

    def __post_init__(self) -> None:
        self.lives = Lives(self.repo)

    def week(self, round: Round) -> list[Move]:
        """All of the last week; what some of them cost and brought may have been found out now."""
        found = {move.operation: move for move in self.lives.asked(lambda: self.repo.since(round.now - WEEK_S))}
        if not round.report.shadow:
            made = measured(found.values(), round.snapshot.running, self.samples, round.now, self._pinned)
            new = {move.operation: move for move in made}
            self.repo.keep(list(new.values()))
            found |= new
        self.note = STOPPED if losing(list(found.values())) else ""
        self.lately = {move.job: move for move in found.values()}
        return list(found.values())

    def _pinned(self, job: int) -> list[float]:
        steps = self.ledger.of_job(job)
        return [i.written_at for i in steps if i.edit.kind is EditKind.PIN and i.outcome is Outcome.DONE]

    # what may begin

    def rules(self, config: Config, week: Sequence[Move], now: float, caps: Capabilities) -> MoveRules | None:
        """And what moves cost, as those of this week show."""
        self.costs = Costs.learned(config.moves, week)
        proven = frozenset[tuple[str, str]]() if self.resuming is None else self.resuming.pairs(config, now)
        may_fence = self.writer.rights.may_fence(self.writer.clock.monotonic())
        self.memory.bound = {job: known for job, known in self.memory.bound.items() if known[0] > now}
        made = rules_of_moves(config, week, now, caps, proven, may_fence)
        return made and replace(made, bound={job: why for job, (_, why) in self.memory.bound.items()})

    def bind(self, round: Round) -> bool:
        """Ask Slurm about those that are about to begin; whether some of them must stay."""
        found, sure = bound_there(self.writer.slurm, [decision.job for decision in round.moves])
        self.memory.bound |= {job: (round.now + BOUND_S if sure else round.now, why) for job, why in found.items()}
        return bool(found)

    def binding(self, rules: Rules) -> Rules:
        """The same, with what was just found out."""
        bound = {job: why for job, (_, why) in self.memory.bound.items()}
        return replace(rules, moves=rules.moves and replace(rules.moves, bound=bound))

    # what goes on

    def look(self) -> frozenset[int]:
        """What goes on, as the ledger has it; the operations."""
        self.going = {move.job: move for move in self.lives.asked(self.repo.open)}
        return frozenset(move.operation for move in self.going.values())

    def tend(self, round: Round, rules: Rules, caps: Capabilities) -> None:
        """Each move's next step, written."""
        found = {move.operation: move for move in self.going.values()}
        if round.report.shadow:
            return
        steps = self.ledger.steps_of(found)
        jobs = {job.id: job for job in (*round.snapshot.pending, *round.snapshot.running)}
        self.back = {m.job: m.old for m in found.values() if self._goes_back(m, steps)}
        pinned = {m.job: at for n, m in found.items() if (at := self._pinned_instead(m, steps[n])) is not None}
        self.homes = self.back | pinned
        wishes: list[Wish] = []
        changed: dict[int, Move] = {}
        self.keeping.clear()
        for number, move in found.items():
            job = jobs.get(move.job)
            seen = seen_now(move, steps[number], job, round.now)
            scene = self._scene(move, steps[number], job, jobs, round, rules, caps)
            answer = next_step(seen, steps[number], job, scene)
            kept = after(seen, answer, steps[number], round.now)
            if isinstance(answer, Do):
                wishes.append(Wish(answer.edit, move.submit, operation=number, step=len(steps[number]), move=kept))
            if kept != move:
                changed[number] = kept
            if _keeps(kept, job, round.now) or (isinstance(answer, Do) and answer.edit.kind is EditKind.REQUEUE):
                self.keeping.add(move.job)
        self.repo.keep(list(changed.values()))
        round.report.moved.update(move.ending.value for move in changed.values() if move.ending is not None)
        self.going = {m.job: m for m in (changed.get(n, m) for n, m in found.items()) if m.ending is None}
        round.promised = self.promised()
        results = self.writer.write(wishes, round)
        newest = {move.job: steps[number][-1] for number, move in found.items()}
        if ended := over(round.snapshot.reservations, self.going, newest, results):
            self.memory.lifted_at = round.now
            self.writer.lift(ended, round)

    def _scene(
        self,
        move: Move,
        steps: Sequence[Intent],
        job: Job | None,
        jobs: Mapping[int, Job],
        round: Round,
        rules: Rules,
        caps: Capabilities,
    ) -> Scene:
        scene = Scene(round.now, same_second=caps.same_second, allowed=rules.moves is not None)
        partners = [other for number in move.partners if (other := jobs.get(number)) is not None and not other.pending]
        there = {other.id for other in partners if move.target is not None and holds(other, move.target)}
        if _gathers(group := self._group(move)):  # where one stays all go back: until all are out nobody is pinned
            there |= {m.job for m in group[1:] if m.job in self.going and _not_yet(m, jobs.get(m.job))}
        standing = {r.fenced: r.nodes for r in round.snapshot.reservations if r.fenced is not None}
        fenced = bool(move.fence) and standing.get(move.job, frozenset()) >= set(move.fence)
        fenced = fenced and standing.keys() >= set(move.others)
        alone = not self.going.keys() >= there
        scene = replace(scene, fenced=fenced, left_alone=alone)
        if job is not None and not job.pending and isinstance(steps[-1].edit, Fence | Warn):
            ring = [m for other in (move.job, *move.others) if (m := self.going.get(other)) is not None]
            blocked = closed([m.target for m in ring if m.target], job, round.snapshot)
            if not move.others and move.target is not None:  # nobody was kept from it
                blocked = blocked or taken(move.target, job, round.snapshot)
            return replace(scene, blocked=blocked)
        if move.handed and job is not None and job.pending and job.required_nodes:
            made = (i for i in self.ledger.of_job(job.id) if i.written_at >= move.began_at)
            return replace(scene, placed=tuple(i.edit.nodes for i in made if isinstance(i.edit, Pin)))
        if job is None or not job.pending or move.target is None or move.handed:
            return scene
        last = steps[-1]
        if isinstance(last.edit, Pin):
            ending = round.snapshot.ending(KEPT_S)
            counted = self.writer.entries.counted(last, round.passes, round.fence, ending)
            pin = judge_pin(counted, last.edit, job, _view(job, round))
            since = max(last.written_at if move.fence else 0.0, self.memory.lifted_at)
            fenced = any(not nodes.isdisjoint(last.edit.nodes) for nodes in standing.values())
            soon = fenced or round.now < since + UNSURE_S
            fate = Fate.WAITING if soon and pin.fate is Fate.UNDO else pin.fate  # a fence of ours is still in its way
            return replace(scene, pin=fate, pin_said=pin.cause)
        home = self.back.get(move.job)
        if home is not None and not self._blocked(job, move.original, home, round.snapshot, rules):
            return replace(scene, home=home)
        blocked = "" if there else self._blocked(job, move.original, move.target, round.snapshot, rules)
        scene = replace(scene, partner_there=bool(there), blocked=blocked)
        if not (blocked or alone) or move.job not in standing:
            return scene
        instead = (at for at in self._instead(move) if not self._blocked(job, move.original, at, round.snapshot, rules))
        if (home := next(instead, None)) is not None:
            self.homes[move.job] = home
        return replace(scene, home=home)

    def _group(self, move: Move) -> list[Move]:
        """Itself, and those that exchange with it, as far as they are known."""
        those = [move, *(self.going.get(job) or self.lately.get(job) for job in move.others)]
        return [m for m in those if m is not None and m.began_at == move.began_at]

    def _goes_back(self, move: Move, steps: Mapping[int, Sequence[Intent]]) -> bool:
        """Whether one of its gathering stays, so that it goes back to where it ran, as all others do: what they leave
        is in as many pieces as they are, and may fit nobody else. Not once one of them has gone where it was to go."""
        group = self._group(move)
        if move.handed or not _gathers(group) or all(m.ending is not Ending.STAYED for m in group):
            return False
        pins = [(m.target, i.edit) for m in group for i in steps.get(m.operation, ()) if isinstance(i.edit, Pin)]
        there = any(at is not None and (at.nodes, at.slots) == (pin.nodes, pin.slots) for at, pin in pins)
        return not there and all(m.ending is not Ending.MOVED for m in group)

    def _instead(self, move: Move) -> Iterator[Placement]:
        """Where the one was to go that has not left its GPUs to it, for nobody takes these now; its own old ones."""
        assert move.target is not None
        for other in move.others:
            theirs = self.lately.get(other)
            if other in self.going or theirs is None or theirs.began_at != move.began_at or theirs.target is None:
                break
            yield theirs.target
        yield replace(move.old, exact=move.old.exact and move.target.exact)

    def _pinned_instead(self, move: Move, steps: Sequence[Intent]) -> Placement | None:
        """Where its newest pin sends it, if that is not its target."""
        pins = [i.edit for i in steps if isinstance(i.edit, Pin | Unpin)]
        if not pins or not isinstance(pin := pins[-1], Pin):
            return None
        return next((at for at in self._instead(move) if (at.nodes, at.slots) == (pin.nodes, pin.slots)), None)

    def _blocked(self, job: Job, original: Request, where: Placement, snapshot: Snapshot, rules: Rules) -> str:
        """What the guard says against its pin, as against any start."""
        asks = replace(job, request=original, required_nodes="", slots=())
        others = {mover: at for mover, at in self.promised().items() if mover != job.id}
        pending = tuple(asks if j.id == job.id else j for j in snapshot.pending)
        # Nor does another move's fence keep it: pinned under it, it starts once that is lifted.
        foreign = tuple(r for r in snapshot.reservations if r.fenced is None)
        view = replace(snapshot, pending=pending, reservations=foreign)
        start = Decision(job.id, job.array_task, Action.START, Reason.BETTER_GPUS, where)
        (verdict,) = check([start], view, rules, others)
        return verdict.said if isinstance(verdict, Refusal) and verdict.reason not in WAITS_ONLY else ""

    # what others must know

    def in_hand(self) -> frozenset[int]:
        """Jobs whose next step is ours alone to make."""
        return frozenset(job for job, move in self.going.items() if not move.handed)

    def promised(self, *, asked: bool = False) -> dict[int, Placement]:
        """Where movers go, by job: nobody else may be placed there. `asked`: also of those that were only asked to go,
        and may not answer; nobody who waits is kept from these, but other movers are."""
        targets = {
            job: move.target
            for job, move in self.going.items()
            if move.target is not None and not move.handed and (asked or job in self.keeping)
        }
        return targets | {job: at for job, at in self.homes.items() if job in targets}

    def kept(self, view: Snapshot, *, asked: bool = False) -> Snapshot:
        """The same, where targets of movers that don't wait yet are not free."""
        waiting = {job.id for job in view.pending}
        return view.keeping(where for job, where in self.promised(asked=asked).items() if job not in waiting)

    def for_movers(self, round: Round) -> Round:
        """The same, as those who could be moved see it: with whom a limit keeps, although they are undone just now."""
        seen = copy(round)
        view = self.kept(round.view, asked=True)
        there = {job.id for job in view.pending}
        undone = (j for j in round.snapshot.pending if j.why in SHARED_LIMITS and j.id not in there)
        seen.view = replace(view, pending=(*view.pending, *undone))
        return seen

    # what begins

    def begin(self, permitted: Iterable[Decision], round: Round) -> None:
        """First steps of moves that the guard let pass."""
        if self.writer.budget.apart_s > RENEW_S:
            self.note = self.note or FAR
            return
        jobs = {job.id: job for job in round.view.running}
        together = {decision.job: decision for decision in permitted}
        wishes, begun = [], []
        for decision in together.values():
            job = jobs[decision.job]
            move = begun_as(decision, job, round, together)
            wishes.append(Wish(first_step(move, job, round.now), job.submit, decision, move=move))
            begun.append(move)
        if len(wishes) > self.writer.budget.allowance(self.writer.clock.monotonic()):
            return  # of those that exchange their GPUs one alone is not to begin
        self.lives.doubt()
        written = self.writer.write(wishes, round)
        for move in begun[: len(written)]:
            self.going[move.job] = move


def _gathers(group: Iterable[Move]) -> bool:
    """Whether they are no ring: one of them takes the GPUs of several."""
    return any(move.further for move in group)


def _not_yet(move: Move, job: Job | None) -> bool:
    """It was not requeued yet, and maybe never is."""
    return job is not None and job.submit == move.submit and job.restarts == move.restarts


def _keeps(move: Move, job: Job | None, now: float) -> bool:
    """Who was requeued waits for his target; who exchanges gets GPUs that another one uses till then."""
    if move.others or move.stopped_at is None:
        return bool(move.others)
    return (job is not None and job.pending) or now < move.stopped_at + KEPT_S


def _view(job: Job, round: Round) -> View:
    cluster = round.snapshot.cluster
    ok = frozenset(name for name, good in zip(cluster.node_names, cluster.node_ok, strict=True) if good)
    undos: dict[JobRef, int] = {}
    return View({job.id: job}, {}, ok, round.passes, round.now, undos)
