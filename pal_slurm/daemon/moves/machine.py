"""What comes next of a move. In: the move, its steps so far, the job as it stands. Out: an edit, a wait, the end. Pure.

A picture of it stands in docs/moves.md. Each answer comes from what Slurm shows: a pald that starts anew in any state
asks the same question. What counts is how often the job has been requeued since the move began (`lives`):

    not yet   warned, and given its time; then requeued
    once on   while its old run ends: its lease is kept; then it waits: pinned, or handed to the planner; then it runs

Whatever goes wrong, the job is left running, or waiting un-pinned under a lease that ends by itself (P1).
"""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.daemon.moves.scene import (
    FENCE_S,
    GRACE_S,
    LATE_S,
    LEASE_S,
    LONG_S,
    MOST_LIVES,
    MOST_TRIES,
    PARTNER_S,
    RENEW_S,
    SAFE_S,
    SEEN_S,
    UNSURE_S,
    Do,
    Later,
    Next,
    Over,
    Scene,
)
from pal_slurm.daemon.moves.signs import (
    bears_our_nice,
    changed,
    first_sign,
    held,
    made_of,
    still_pinned,
    was_requeued,
    wrote_over_our_nice,
)
from pal_slurm.daemon.reconcile import Fate
from pal_slurm.model import (
    MOVABLE,
    Edit,
    EditKind,
    Ending,
    Fence,
    Intent,
    Job,
    JobState,
    Move,
    Outcome,
    Pin,
    Placement,
    Renew,
    Renice,
    Requeue,
    Unpin,
    Warn,
)

HELD = "somebody holds it"


def next_step(move: Move, steps: Sequence[Intent], job: Job | None, scene: Scene) -> Next:
    if job is None or job.state is JobState.OTHER or job.restarts < move.restarts or job.submit != move.submit:
        return Over(Ending.ENDED)
    if job.restarts == move.restarts:
        return _first_run(move, steps, job, scene)
    if (job.completing or job.pending) and (first := _ahead_no_more(move, steps, job, scene)):
        return first
    if job.completing:
        return _between(move, steps, job, scene)
    return _waits(move, steps, job, scene) if job.pending else _runs_again(move, steps, job, scene)


# Not requeued yet


def _first_run(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    answer = _not_yet(move, steps, job, scene)
    if isinstance(answer, Over) and not job.pending and bears_our_nice(move, job):
        # A requeue that was refused comes with an update that may not have been.
        return _give_nice_back(move, steps, job, scene) or answer
    return answer


def _not_yet(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    last = steps[-1]
    waited = scene.now - last.written_at
    if job.pending:
        return Over(Ending.ENDED, "slurmctld forgot that it ran")
    if job.completing or job.suspended:
        return Later("it is ending" if job.completing else "somebody suspended it")
    if no_more := _no_more(last, job, scene):
        return Over(Ending.STAYED, no_more)
    if was_requeued(steps):
        # slurmctld was killed before it had written the requeue down: it shows a run of which nothing is left.
        if waited < UNSURE_S:
            return Later("slurmctld may have forgotten its requeue")
        return _requeue(move, steps, job, scene, "slurmctld forgot its requeue, again and again")
    if isinstance(last.edit, Fence):
        return _fenced(move, last, job, scene)
    return _asked(move, steps, job, scene) if isinstance(last.edit, Warn) else _unanswered(move, steps, job, scene)


def _asked(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    """To save; its own requeue is its answer."""
    last = steps[-1]
    waited = scene.now - last.written_at
    if last.outcome in (Outcome.REFUSED, Outcome.GONE):
        return Over(Ending.STAYED, f"it could not be asked to save: {last.said}")
    # Sent, or maybe sent: never twice.
    if waited > move.ahead_s + LATE_S:
        return Over(Ending.STAYED, "pald was away when its time was up: what it saved is old by now")
    if waited < move.ahead_s:
        return Later("it has time to save")
    if not move.unanswered:  # who does not answer has not said that he saved (P10)
        stayed = Over(Ending.STAYED, f"it did not requeue itself within {move.ahead_s} s")
        return stayed if waited > move.ahead_s + GRACE_S else Later("it saves")
    if last.outcome is not Outcome.DONE or scene.blocked:
        return Over(Ending.STAYED, scene.blocked or "whether it was asked to save is not known")
    return _requeue(move, steps, job, scene, "")


def _fenced(move: Move, last: Intent, job: Job, scene: Scene) -> Next:
    """Nobody is asked to go before it is seen that others are kept out."""
    if scene.left_alone or scene.blocked:
        return Over(Ending.STAYED, scene.blocked or "the other job stays where it is")
    waited = scene.now - last.written_at
    if scene.fenced and waited < SEEN_S:
        return Do(_ask(move, job, scene.now))
    if last.outcome in (Outcome.REFUSED, Outcome.GONE):
        return Over(Ending.STAYED, f"others can't be kept from its GPUs: {last.said}")
    return (
        Later("its fence is set up") if waited < UNSURE_S else Over(Ending.STAYED, "others were not kept from its GPUs")
    )


def _unanswered(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    """Its requeue is on disk, and the job runs on."""
    last = steps[-1]
    waited = scene.now - last.written_at
    if last.outcome is Outcome.REFUSED:
        return Over(Ending.STAYED, last.said)
    if last.outcome is Outcome.GONE and waited < LONG_S:
        return Later("it is ending")
    if waited < UNSURE_S:
        return Later("whether it was requeued is not known yet")
    if waited > LATE_S:  # what was true when it was decided may be so no more
        return Over(Ending.STAYED, "pald was away when it was to be requeued")
    return _requeue(move, steps, job, scene, "no answer to its requeue")


def _no_more(last: Intent, job: Job, scene: Scene) -> str:
    """Why it is not requeued any more."""
    if not scene.allowed:
        return "moves were switched off"
    if job.priority == 0:
        return "somebody holds it: once requeued it would wait for ever"
    if job.hint.off or job.consent.given not in MOVABLE:
        return "it was said meanwhile that it stays"
    return "it could not be requeued" if last.edit.kind is EditKind.RENICE else ""


def _requeue(move: Move, steps: Sequence[Intent], job: Job, scene: Scene, given_up: str) -> Next:
    if made_of(steps, EditKind.REQUEUE) >= MOST_TRIES:
        return Over(Ending.STAYED, given_up)
    return Do(Requeue(job.id, until=_lease(scene), original=move.original, nice=move.ahead, seen=job))


def first_step(move: Move, job: Job, now: float) -> Edit:
    """Of a move that is just being begun."""
    if move.fence:
        return Fence(job.id, nodes=move.fence, until=int(now + move.ahead_s + GRACE_S + FENCE_S), seen=job)
    return _ask(move, job, now)


def _ask(move: Move, job: Job, now: float) -> Edit:
    if move.signal:
        return Warn(job.id, signal=move.signal, to_script=move.to_script, seen=job)
    return Requeue(job.id, until=int(now) + LEASE_S, original=move.original, nice=move.ahead, seen=job)


# Requeued: ahead of the queue is what it had, as long as nobody holds it (P5)


def _ahead_no_more(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next | None:
    if wrote_over_our_nice(move, steps, job):
        why, edit = "somebody changed its priority", Renice(job.id, anew=True, nice=max(job.nice, move.nice))
    elif bears_our_nice(move, job) and held(job):
        why, edit = HELD, Renice(job.id, until=_lease(scene), nice=move.nice)
    elif bears_our_nice(move, job) and (why := changed(move, steps, job, scene.placed)):
        edit = Renice(job.id, nice=move.nice)
    else:
        return None
    if _refused(steps):
        return None
    handed = "" if move.handed else why
    just_now = steps[-1].edit.kind is EditKind.RENICE and _unsure(steps[-1], scene)
    return Later(why, handed) if just_now else Do(edit, handed)


def _refused(steps: Sequence[Intent]) -> bool:
    """So often that it is left. A slurmctld that gives no answer is asked again."""
    return sum(i.edit.kind is EditKind.RENICE and i.outcome is Outcome.REFUSED for i in steps) >= MOST_TRIES


# Its old run ends


def _between(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    """It requeued itself, or we did it: it must wait for us, un-pinned, when its nodes are done with it."""
    if scene.now - steps[-1].written_at < UNSURE_S and steps[-1].outcome is not Outcome.DONE:
        return Later("its last step is not known yet")
    if scene.now - first_sign(steps) > LONG_S:
        return Later("its old nodes are not done with it", handed="its old nodes are not done with it")
    if move.handed or (theirs := changed(move, steps, job)):
        return Later(move.handed or theirs, handed=move.handed or theirs)
    if job.required_nodes or steps[-1].edit.kind in (EditKind.WARN, EditKind.FENCE):
        if made_of(steps, EditKind.UNPIN) >= MOST_TRIES:
            return Later("it can't be un-pinned while its old run ends")
        return Do(Unpin(job.id, None, _lease(scene), move.original, move.ahead, between=True, seen=job))
    if (job.eligible or 0) < scene.now + RENEW_S:
        return Do(Renew(job.id, until=_lease(scene), between=True, seen=job))
    return Later("its old run ends")


# It waits


def _waits(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    last = steps[-1]
    if not move.handed and (theirs := HELD if held(job) else changed(move, steps, job)):
        return Later(theirs, theirs)  # it is no more on its way: neither its target nor its turn is kept for it
    if move.handed:
        return _is_handed(move, steps, job, scene)
    if job.restarts - move.restarts > MOST_LIVES:
        return _hand_over(move, job, scene, "it goes back to the queue again and again")
    if move.target is None or not scene.allowed:
        return _hand_over(move, job, scene, "" if scene.allowed else "moves were switched off")
    if isinstance(last.edit, Pin) and scene.pin is not None and scene.pin is not Fate.NEVER_WAS:
        if scene.pin in (Fate.UNDO, Fate.SURRENDER, Fate.THEIRS):
            return _hand_over(move, job, scene, scene.pin_said or "its pin did not start it")
        return Later("it is about to start")
    return _pin(move, move.target, steps, job, scene)


def _pin(move: Move, where: Placement, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    last, there = steps[-1], scene.partner_there and scene.home is None
    where = scene.home or where
    if (scene.blocked and scene.home is None) or made_of(steps, EditKind.PIN) >= MOST_TRIES:
        return _hand_over(move, job, scene, scene.blocked or "it could not be pinned")
    if there and scene.left_alone:
        return _hand_over(move, job, scene, "the other job stays where it is")
    if there and scene.now - first_sign(steps) > move.ahead_s + PARTNER_S:
        return _hand_over(move, job, scene, "the other job is still there")
    if _unsure(last, scene):
        return Later("its last step is not known yet")
    if job.required_nodes and not isinstance(last.edit, Pin):  # of its last run: it requeued itself
        return Do(Unpin(job.id, None, _lease(scene), move.original, move.ahead, seen=job))
    if there or (not scene.same_second and int(scene.now) <= (job.since or job.submit)):
        return _keep(job, scene, "the other job is still there" if there else "the second is not over")
    if (job.eligible or 0) < scene.now + SAFE_S:
        return Do(Renew(job.id, until=_lease(scene), seen=job))
    return Do(Pin(job.id, None, where.nodes, where.slots, where.partition, move.original, seen=job))


def _unsure(last: Intent, scene: Scene) -> bool:
    return last.outcome in (None, Outcome.UNKNOWN) and scene.now - last.written_at < UNSURE_S


def _keep(job: Job, scene: Scene, why: str) -> Next:
    if (job.eligible or 0) < scene.now + RENEW_S:
        return Do(Renew(job.id, until=_lease(scene), seen=job))
    return Later(why)


def _hand_over(move: Move, job: Job, scene: Scene, why: str) -> Next:
    """Un-pinned, leased: the planner's, as any other job that waits."""
    why = why or "to wait in the queue"
    if not job.required_nodes and (job.eligible or 0) > scene.now + RENEW_S:
        return Later(why, handed=why)
    return Do(Unpin(job.id, None, _lease(scene), move.original, seen=job), handed=why)


def _is_handed(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    if still_pinned(steps, job) and not _unsure(steps[-1], scene) and made_of(steps, EditKind.UNPIN) < 2 * MOST_TRIES:
        return Do(Unpin(job.id, None, _lease(scene), move.original, seen=job), handed=move.handed)
    if move.target is None and not bears_our_nice(move, job):
        return Over(Ending.STOPPED)
    return Later(move.handed)


# It runs again


def _runs_again(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next:
    if bears_our_nice(move, job) and (first := _give_nice_back(move, steps, job, scene)):
        return first
    if move.target is None:
        return Over(Ending.STOPPED, "and started again")
    there = set(job.nodes) == set(move.target.nodes) and (
        not move.target.exact or all(set(gpus) == set(move.target.slots or ()) for gpus in job.gpus)
    )
    back = "" if set(job.nodes) != set(move.old.nodes) else "it is back where it ran"
    return Over(Ending.MOVED) if there else Over(Ending.ELSEWHERE, move.handed or back)


def _give_nice_back(move: Move, steps: Sequence[Intent], job: Job, scene: Scene) -> Next | None:
    """None: it was refused so often that it is left."""
    if _refused(steps):
        return None
    return Later("its nice is given back") if _unsure(steps[-1], scene) else Do(Renice(job.id, nice=move.nice))


def _lease(scene: Scene) -> int:
    return int(scene.now) + LEASE_S
