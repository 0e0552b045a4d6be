"""Moves that a script wants. In: lines of jobs, nodes. Out: what the planner would propose, cycle after cycle.

Nobody asks whether it would pay, or may be: that is the guard's matter. An offer lasts until the world is mended, so a
job that was moved is offered the next of its nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pal_slurm.daemon.round import Round
from pal_slurm.model import MOVABLE, Action, Cluster, Decision, Job, MoveTerms, Placement, Reason
from pal_slurm.policy import Plan

QUEUE = "queue"
BLIND = "!"  # behind a node: the offer names slots that may be taken


@dataclass
class Offers:
    numbers: Mapping[int, int] = field(default_factory=dict)  # of jobs, by line
    wanted: dict[int, tuple[str, ...]] = field(default_factory=dict)  # nodes, by line
    swaps: dict[int, int] = field(default_factory=dict)

    def put(self, what: str, words: tuple[str, ...]) -> None:
        line = int(words[0])
        if what == "offer":
            self.wanted[line] = tuple(words[1].split(","))
        else:
            self.swaps |= {line: int(words[1]), int(words[1]): line}

    def __call__(self, round: Round, planned: Plan) -> list[Decision]:
        if any(decision.action in (Action.START, Action.PLAIN) for decision in planned.decisions):
            return []  # those that wait go first
        running = {job.id: job for job in round.view.running}
        jobs = {line: running[number] for line, number in self.numbers.items() if number in running}
        made = [*self._swapped(jobs), *self._offered(jobs, round.view.cluster)]
        wide = next((d for d in made if d.terms and d.terms.further), None)
        if wide is None or wide.terms is None:
            return made
        first = made.index(wide)
        group = made[first : first + 1 + len(wide.terms.partners)]
        return [*group, *(d for d in made if d.job not in {member.job for member in group})]  # nothing else of theirs

    def _swapped(self, jobs: Mapping[int, Job]) -> Iterator[Decision]:
        for line, other in self.swaps.items():
            if line in jobs and other in jobs and jobs[other].gpus and not jobs[line].completing:
                its = jobs[other]
                if group := _gathered(jobs[line], its, jobs.values()):
                    yield from group
                    continue
                if _gathered(its, jobs[line], jobs.values()):
                    continue  # it is one of that group
                yield _move(jobs[line], Placement(its.nodes, its.gpus, exact=True), partner=its.id)

    def _offered(self, jobs: Mapping[int, Job], cluster: Cluster) -> Iterator[Decision]:
        for line, nodes in self.wanted.items():
            job = jobs.get(line)
            if job is None or job.completing or len(job.nodes) != 1 or not job.gpus:
                continue
            if nodes == (QUEUE,):
                yield _move(job, None)
            elif (where := next(_places(job, nodes, cluster), None)) is not None:
                yield _move(job, where)


def _places(job: Job, nodes: tuple[str, ...], cluster: Cluster) -> Iterator[Placement]:
    count = len(job.gpus[0])
    for name in (node.removesuffix(BLIND) for node in nodes if node.removesuffix(BLIND) not in job.nodes):
        row = cluster.node_index.get(name)
        if row is None:
            continue
        free = [slot for slot in range(cluster.width) if cluster.gpu_free[row, slot]]
        slots = free if len(free) >= count else list(range(cluster.width)) if f"{name}{BLIND}" in nodes else []
        if len(slots) >= count:
            yield Placement((name,), (tuple(slots[:count]),), exact=True)


def _gathered(wide: Job, other: Job, jobs: Iterable[Job]) -> list[Decision]:
    """Of two that hold unequally many GPUs the larger one takes those of the smaller one and of others on its node."""
    if wide.completing or len(wide.nodes) != 1 or len(other.nodes) != 1 or wide.nodes == other.nodes:
        return []
    (left,), group = wide.gpus, list[Job]()
    beside = sorted(
        (j for j in jobs if j.nodes == other.nodes and j is not other), key=lambda j: j.consent.given not in MOVABLE
    )
    for job in (other, *beside):
        if (
            not job.completing
            and job.gpus
            and job.gpus[0]
            and sum(len(j.gpus[0]) for j in group) + len(job.gpus[0]) <= len(left)
        ):
            group.append(job)
    taken = tuple(sorted(slot for job in group for slot in job.gpus[0]))
    if len(group) < 2 or other not in group or len(taken) != len(left):
        return []
    first, *further = (job.id for job in group)
    made = [_move(wide, Placement(other.nodes, (taken,), exact=True), first, tuple(further))]
    for job in group:
        slots, left = left[: len(job.gpus[0])], left[len(job.gpus[0]) :]
        made.append(_move(job, Placement(wide.nodes, (slots,), exact=True), wide.id))
    return made


def _move(job: Job, where: Placement | None, partner: int | None = None, further: tuple[int, ...] = ()) -> Decision:
    action = Action.STOP if where is None else Action.MOVE
    terms = MoveTerms(20.0, 600.0, 1.2, partner, further=further)
    return Decision(job.id, None, action, Reason.BETTER_GPUS, where, 1.0, terms=terms)
