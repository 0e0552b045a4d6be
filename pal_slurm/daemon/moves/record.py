"""A move's own row. In: a decision and the job as it runs; then what each look at it tells. Out: Move. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pal_slurm.daemon.moves.fences import fence_for
from pal_slurm.daemon.moves.place import ahead_of_all
from pal_slurm.daemon.moves.scene import Do, Later, Next, Over
from pal_slurm.daemon.round import Round
from pal_slurm.guard.running import ring_of
from pal_slurm.model import Action, Decision, EditKind, Intent, Job, Move, Outcome, Placement


def begun_as(decision: Decision, job: Job, round: Round, together: Mapping[int, Decision]) -> Move:
    """`together`: all moves that are begun now."""
    ring = ring_of(decision, together)
    terms, cluster = decision.terms, round.snapshot.cluster
    row = cluster.node_index.get(job.nodes[0])
    model = "" if row is None else cluster.models[int(cluster.gpu_model[row, job.gpus[0][0]])]
    return Move(
        job.id,
        job.submit,
        job.user,
        job.restarts,
        Placement(job.nodes, job.gpus, exact=all(gpus == job.gpus[0] for gpus in job.gpus)),
        job.lease.original if job.lease else job.request,
        round.now,
        app=job.hint.app,
        model=model,
        target=decision.placement if decision.action is Action.MOVE else None,
        signal=job.consent.signal,
        to_script=job.consent.to_script,
        ahead_s=job.consent.ahead_s,
        unanswered=job.consent.unanswered,
        time_limit_s=job.time_limit_s,
        cpus=job.cpus_alloc,
        mem_mb=job.shape.mem_on_each(len(job.nodes)) if job.shape else 0,
        partitions=job.partitions,
        nice=job.nice,
        ahead=ahead_of_all(job, round.snapshot),
        fence=fence_for(job, [decision, *(together[other] for other in ring[1:])], round.view),
        partner=terms.partner if terms else None,
        further=terms.further if terms else (),
        ring=ring,
        makes_room_for=terms.makes_room_for if terms else None,
        cost_s=terms.cost_s if terms else 0.0,
        gain_s=terms.gain_s if terms else 0.0,
        step_before=terms.step_before if terms else None,
        step_after=decision.step_time,
    )


def seen_now(move: Move, steps: Sequence[Intent], job: Job | None, now: float) -> Move:
    """What this look tells of its times."""
    if job is None or job.restarts <= move.restarts:
        return move
    if move.stopped_at is None:
        ours = (i.written_at for i in steps if i.edit.kind is EditKind.REQUEUE and i.outcome is not Outcome.REFUSED)
        move = replace(move, stopped_at=next(ours, now))
    if not job.pending and not job.completing and job.start is not None:
        move = replace(move, started_at=float(job.start))
    return move


def after(move: Move, answer: Next, steps: Sequence[Intent], now: float) -> Move:
    if isinstance(answer, Over):
        unasked = all(intent.edit.kind is EditKind.FENCE for intent in steps)
        return replace(move, ending=answer.ending, said=answer.said, ended_at=now, unasked=unasked)
    if isinstance(answer, Do | Later) and answer.handed and not move.handed:
        return replace(move, handed=answer.handed)
    return move
