"""What would be moved now, and why not more. In: a snapshot, what is known, pal.yaml. Out: a row per running job.

A cycle of pald's as far as its plan, then its proposals and its guard, as if moves were switched on; nothing is written
anywhere. What pald has in memory alone is not known: who was overtaken before, and what was refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from pal_slurm.config import Config
from pal_slurm.daemon.build import Pald
from pal_slurm.daemon.canary import outside
from pal_slurm.daemon.moves.budget import WEEK_S, losing, rules_of_moves
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.place import bound_there
from pal_slurm.daemon.moves.proposing import proposals
from pal_slurm.daemon.seeing import as_if_ours
from pal_slurm.daemon.starts import OF_RUNNING
from pal_slurm.guard import Refusal, Rules, Verdict, check
from pal_slurm.model import Action, Decision, Job, Reason, Snapshot

OUTSIDE = "it is outside the canary of pal.yaml"
ON_WAY = "it is being moved"
NOTHING_PAYS = "no other GPUs are worth its move"


@dataclass(frozen=True, slots=True)
class WouldMove:
    job: Job
    decision: Decision | None  # none: it stays
    said: str  # why it stays


def as_if_on(config: Config) -> Config:
    """Moves switched on, and who asked for it is movable; all else as it is."""
    mode = "asked" if config.moves.mode == "off" else config.moves.mode
    moves = msgspec.structs.replace(config.moves, mode=mode)
    policy = msgspec.structs.replace(config.policy, moving="")
    return msgspec.structs.replace(config, actuator="move", moves=moves, policy=policy)


def what_if(pald: Pald, proven: frozenset[tuple[str, str]] = frozenset()) -> list[WouldMove]:
    """In the order in which Slurm tells of the jobs. `pald`: one that does not lead, and writes nothing."""
    config, cycle = pald.config, pald.cycle
    round, plan = cycle.look_only()
    snapshot = as_if_ours(round.snapshot) if round.report.shadow else round.snapshot
    week = cycle.movers.repo.since(round.now - WEEK_S)
    moving = replace(cycle.rules, moves=rules_of_moves(as_if_on(config), week, round.now, pald.caps, proven))
    made, costs = list(plan.decisions), Costs.learned(config.moves, week)
    seen = cycle.movers.for_movers(round)
    times = cycle.books.observer.run_times
    made += proposals(seen, made, cycle.composition, config, moving, costs, times, plan.kept)
    wanted = [d for d in made if d.action in OF_RUNNING]
    proposed = {d.job: d for d in cycle.past.may_move(wanted, round.snapshot, moving)}
    verdicts = {v.decision.job: v for v in check(list(proposed.values()), seen.view, moving, seen.coming)}
    bound, _ = bound_there(pald.state.slurm, [job for job, v in verdicts.items() if not isinstance(v, Refusal)])
    on_way = cycle.movers.going
    kept_out = outside(snapshot.running, config)
    rows = []
    for job in snapshot.running:
        if not job.gpu_job:
            continue
        verdict = verdicts.get(job.id) or _may_it(job, snapshot, moving)
        if job.id in on_way or job.id in bound:
            rows.append(WouldMove(job, None, bound.get(job.id, ON_WAY)))
        elif isinstance(verdict, Refusal):
            said = verdict.said.removeprefix(f"job {job.id}: ")
            stopped = moving.moves is None and losing(week)
            rows.append(WouldMove(job, None, "moves have cost more than they brought" if stopped else said))
        else:
            decision = proposed.get(job.id)
            stays = OUTSIDE if job.id in kept_out else NOTHING_PAYS
            rows.append(WouldMove(job, decision, "" if decision else stays))
    return rows


def _may_it(job: Job, snapshot: Snapshot, rules: Rules) -> Verdict:
    """The guard's word on whether it may be moved at all: as if it were to be stopped."""
    (verdict,) = check([Decision(job.id, job.array_task, Action.STOP, Reason.MAKES_ROOM)], snapshot, rules)
    return verdict
