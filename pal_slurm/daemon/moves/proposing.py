"""What would be moved now. In: the snapshot, what is known, what moves cost. Out: decisions, for the guard to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from pal_slurm.config import Config
from pal_slurm.daemon.canary import outside
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.round import Round
from pal_slurm.guard import MoveRules, Rules
from pal_slurm.guard.running import movable, ring_of, unleased
from pal_slurm.model import Action, Decision, Job, Reason, RunTimes, Snapshot
from pal_slurm.policy import Composition
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.moving.value import ByValue, ForRoom, MayMove
from pal_slurm.policy.plan import NOTHING_KEPT, KeptForWaiting

WAITING = (Reason.NO_ROOM, Reason.BEHIND_HEAD)
MOST_TOLD = 20
CROWD = (*WAITING, Reason.BETTER_POOL_SOON)


def proposals(
    round: Round,
    decisions: list[Decision],
    composition: Composition,
    config: Config,
    rules: Rules,
    costs: Costs,
    run_times: RunTimes,
    kept: KeptForWaiting = NOTHING_KEPT,
) -> list[Decision]:
    """`decisions`, `kept`: of this cycle's plan, about those that wait. `run_times`: how long jobs run."""
    if rules.moves is None:
        return []
    room = min(rules.moves.at_once - rules.moves.on_way, rules.moves.per_cluster - rules.moves.of_cluster)
    jobs = movable(round.view, rules) if room > 0 else []
    kept_out = outside(jobs, config)
    jobs = [job for job in jobs if job.id not in kept_out]
    if not jobs or any(d.action in (Action.START, Action.PLAIN) for d in decisions):
        return []  # those that wait go first
    number: Callable[[Decision], int] = lambda d: d.rank  # noqa: E731
    waiting = {job.id: job for job in round.view.pending}
    full = sorted((d for d in decisions if d.action is Action.WAIT and d.reason in WAITING), key=number)
    heads = tuple(ForRoom(waiting[d.job], d.until) for d in full[:1] if d.job in waiting)
    if not heads:
        where = {name for job in jobs for name in job.nodes}
        theirs = (job for job in unleased(round.view, where) if job.gpu_job)
        heads = tuple(map(ForRoom, islice(theirs, 1)))
    margin = config.moves.margin * costs.doubt
    crowded = any(d.action is Action.WAIT and d.reason in CROWD for d in decisions)

    def look(those: Sequence[Job], most: int, heads: tuple[ForRoom, ...]) -> list[Decision]:
        seek = ByValue(
            round.view.awake, round.knowledge, composition.placement, margin, most, heads, run_times, kept,
            crowded=crowded,
        )  # fmt: skip
        return seek.moves(
            [MayMove(job, costs.of(job, round.view.cluster), idle_s=job.consent.ahead_s) for job in those]
        )

    found, over = within(look(jobs, room, heads), jobs, rules.moves)
    if over and len(found) < room:  # what one user may not have is for others
        makes = any(d.reason is Reason.MAKES_ROOM for d in found)
        going = {d.job for d in found}
        others = [job for job in jobs if job.user not in over and job.id not in going]
        found += look(others, room - len(found), () if makes else heads)
    return found


def told_of_movers(
    decisions: Sequence[Decision], round: Round, kept: Snapshot, composition: Composition
) -> Sequence[Decision]:
    """The same, where who finds no room could start on what is kept for a mover. `kept`: `round.view` before that."""
    if kept is round.view:
        return decisions
    floor = Floor(kept.cluster, round.knowledge, now=kept.taken, reservations=kept.reservations)
    jobs, apps = {job.id: job for job in round.view.pending}, round.knowledge.apps

    def fits(decision: Decision) -> bool:
        job = jobs.get(decision.job)
        if job is None or floor.needs.of(job) is None:
            return False
        return composition.placement.place(job, apps.get(job.hint.app, job.user), floor) is not None

    none = [d for d in decisions if d.action is Action.WAIT and d.reason is Reason.NO_ROOM]
    could = {id(d) for d in none[:MOST_TOLD] if fits(d)}
    return [replace(d, reason=Reason.KEPT_FOR_MOVER) if id(d) in could else d for d in decisions]


def within(found: Sequence[Decision], jobs: Sequence[Job], moves: MoveRules) -> tuple[list[Decision], set[str]]:
    """Those for which their users have moves left in this hour; users who have too few. Rings go whole or not."""
    user, by_job = {job.id: job.user for job in jobs}, {d.job: d for d in found}
    spent, over = Counter(moves.of_user), set[str]()
    kept: dict[int, Decision] = {}
    for decision in found:
        together = [d for d in found if _purpose(d) == _purpose(decision)] if _purpose(decision) else [decision]
        together = [by_job[job] for job in ring_of(decision, by_job)] or together
        needs = Counter(user[d.job] for d in together if d.job not in kept)
        if beyond := {name for name, n in needs.items() if spent[name] + n > moves.per_user}:
            over |= beyond
        else:
            spent += needs
            kept |= {d.job: d for d in together}
    return list(kept.values()), over


def _purpose(decision: Decision) -> int | None:
    return decision.terms.makes_room_for if decision.terms else None
