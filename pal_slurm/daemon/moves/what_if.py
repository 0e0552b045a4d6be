"""What would be moved now, and why not more. In: a snapshot, what is known, pal.yaml. Out: a row per running job.

The planner and the guard that pald asks, asked as if moves were switched on; nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from pal_slurm.config import Config
from pal_slurm.daemon.canary import outside
from pal_slurm.daemon.moves.budget import losing, rules_of_moves
from pal_slurm.daemon.moves.costs import Costs
from pal_slurm.daemon.moves.proposing import proposals
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round
from pal_slurm.daemon.seeing import as_if_ours
from pal_slurm.daemon.starts import OF_RUNNING
from pal_slurm.guard import Refusal, Rules, Verdict, check
from pal_slurm.model import Action, Decision, Job, Knowledge, Move, Reason, Snapshot
from pal_slurm.policy import Circumstances, Composition, plan
from pal_slurm.slurm.port import Capabilities, Passes

OUTSIDE = "it is outside the canary of pal.yaml"
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


def what_if(
    snapshot: Snapshot,
    knowledge: Knowledge,
    composition: Composition,
    config: Config,
    rules: Rules,
    week: Sequence[Move],
    caps: Capabilities,
    proven: frozenset[tuple[str, str]] = frozenset(),
) -> list[WouldMove]:
    """In the order in which Slurm tells of the jobs."""
    if config.actuator == "shadow":
        snapshot = as_if_ours(snapshot)
    moving = replace(rules, moves=rules_of_moves(as_if_on(config), week, snapshot.taken, caps, proven))
    round = Round(CycleReport(shadow=True), 0, 0.0, Passes(0, 0, 0, 0, 0), snapshot)
    round.view, round.knowledge = snapshot, knowledge
    made = list(plan(snapshot, knowledge, composition, Circumstances()).decisions)
    made += proposals(round, made, composition, config, moving, Costs.learned(config.moves, week))
    proposed = {d.job: d for d in made if d.action in OF_RUNNING}
    verdicts = {v.decision.job: v for v in check(list(proposed.values()), snapshot, moving)}
    kept_out = outside(snapshot.running, config)
    rows = []
    for job in snapshot.running:
        if not job.gpu_job:
            continue
        verdict = verdicts.get(job.id) or _may_it(job, snapshot, moving)
        if isinstance(verdict, Refusal):
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
