"""Whether a running job may be moved at all. In: the job, the decision, the snapshot, the rules. Out: nothing, or No.

Whether its target is free and can be asked for is check.py's matter, as for any start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pal_slurm.guard.verdict import Cause, MoveRules, No, Rules
from pal_slurm.model import SHARED_LIMITS, Action, Cluster, Decision, Given, Job, Snapshot, Waits

MOST_BATCH = 3  # Slurm holds a job at the sixth start that it counts against it
MOST_FENCED_S = 60  # no longer are whole nodes closed to others because a job saves (P5)
MOST_RING = 8  # one that does not go keeps the others from where they were to go
MOST_AHEAD_S = 600  # no longer do GPUs stand empty because somebody says that he saves (P12)
KEPT = (Waits.HELD, Waits.BLOCKED, Waits.LIMIT, *SHARED_LIMITS, Waits.NEVER)


def movable(snapshot: Snapshot, rules: Rules) -> list[Job]:
    """Running jobs against whose being moved there is nothing yet to say; where to is not asked here."""
    found = []
    limited = {job.array_id for job in snapshot.pending if job.array_limit is not None}
    full = full_limits(snapshot.pending)
    for job in snapshot.running:
        if (job.array_id is not None and job.array_id in limited) or not full.isdisjoint(_limits_of(job)):
            continue
        try:
            _check_job(job, snapshot.taken, rules)
        except No:
            continue
        if rules.moves and job.id not in rules.moves.going_on and not _used_up(job, rules.moves):
            found.append(job)
    return found


def full_limits(waiting: Iterable[Job]) -> set[tuple[str, str]]:
    """Whose limits are met: who is requeued leaves room for those that wait for them, before it waits itself.

    Slurm does not tell whose limit it is: an account's may be that of one above it, a QOS's that of the partition.
    Of a job that is pinned it tells a limit only once it has looked at it.
    """
    found: set[tuple[str, str]] = set()
    for job in waiting:
        if job.why is Waits.OWN_LIMIT:
            found.add(("user", job.user))
        elif job.why is Waits.THEIR_LIMIT:
            found.update(_limits_of(job))
        elif job.pin is not None:
            found |= {("user", job.user), ("account", job.account)}
    return found


def _limits_of(job: Job) -> set[tuple[str, str]]:
    of_partitions = (("partition", name) for name in job.partitions)
    return {("user", job.user), ("account", job.account), ("qos", job.qos), *of_partitions}


def _used_up(job: Job, moves: MoveRules) -> bool:
    of_job, of_user = moves.of_job.get(job.id, 0), moves.of_user.get(job.user, 0)
    often = of_job >= moves.per_job or of_user >= moves.per_user
    return often or job.user in moves.losers or _does_not_answer(job, moves)


def _does_not_answer(job: Job, moves: MoveRules) -> bool:
    return bool(job.consent.signal) and not job.consent.unanswered and job.user in moves.silent


def check_movable(job: Job | None, decision: Decision, snapshot: Snapshot, rules: Rules, begun: Sequence[Job]) -> None:
    """`begun`: those whose moves this batch has let through already."""
    moves = _check_job(job, snapshot.taken, rules)
    assert job is not None
    # Of a task that runs Slurm does not tell its array's limit, but of those that wait.
    waits = snapshot.pending if job.array_id is not None else ()
    if any(other.array_id == job.array_id and other.array_limit is not None for other in waits):
        raise No(Cause.ARRAY_LIMIT, "another task of its array would take its turn")
    if not full_limits(snapshot.pending).isdisjoint(_limits_of(job)):
        raise No(Cause.WOULD_BE_TAKEN, "a job that waits for a limit which it shares would take its turn")
    check_budget(job, decision, snapshot.cluster, moves, begun)
    _check_rivals(job, decision, snapshot, moves)


def _check_job(job: Job | None, now: float, rules: Rules) -> MoveRules:
    moves = rules.moves
    if job is None:
        raise No(Cause.NOT_RUNNING, "it does not run")
    if job.lease is None or job.hint.off:
        raise No(Cause.HANDS_OFF, "its user wrote pal:off" if job.hint.off else "it bears no mark of ours")
    if moves is None:
        raise No(Cause.MOVES_OFF, "moves are switched off")
    _check_kind(job)
    _check_consent(job, moves)
    if job.id in moves.bound:
        raise No(Cause.BOUND, moves.bound[job.id])
    if job.consent.ahead_s > MOST_AHEAD_S:
        raise No(Cause.MOVE_BUDGET, f"it wants {job.consent.ahead_s} s to save: its target would stand empty for it")
    if now < (job.start or now) + moves.first_s:
        raise No(Cause.TOO_EARLY, "it has only just started")
    if job.end is not None and now > job.end - moves.last_s - job.consent.ahead_s:  # it is requeued after that time
        raise No(Cause.TOO_LATE, "it is about to end")
    if not moves.other_slots and (job.slots or _free_count(job)):
        raise No(Cause.NO_SLOTS, "this Slurm can't ask anew for a job that names slots, or that may have several sizes")
    return moves


def _check_kind(job: Job) -> None:
    if job.het or not job.requeue:
        raise No(Cause.NO_CONSENT, "it can't be requeued")
    if job.batch == 0 or (job.lease is not None and job.lease.interactive):
        raise No(Cause.NO_CONSENT, "it is of srun or salloc: nothing could start it again")
    if job.completing or job.suspended:
        raise No(Cause.NOT_RUNNING, "it is ending" if job.completing else "it is suspended")
    if job.batch is not None and job.batch > MOST_BATCH:
        raise No(Cause.NEAR_LIMIT, f"Slurm counts {job.batch} starts of it and may soon hold it")
    if job.reservation or job.exclusive or (job.lease is not None and job.lease.own_nodes):
        raise No(Cause.HANDS_OFF, "it is in a reservation, has nodes to itself, or nodes of its user's choice")
    if job.priority == 0:  # scontrol hold, of a running job: it may run on
        raise No(Cause.HANDS_OFF, "somebody holds it: once requeued it would wait for ever")
    if job.array_limit is not None:
        raise No(Cause.ARRAY_LIMIT, "another task of its array would take its turn")
    if not job.nodes or len(job.gpus) != len(job.nodes) or not all(job.gpus):
        raise No(Cause.NO_PLACEMENT, "where it runs is not known")


def _check_consent(job: Job, moves: MoveRules) -> None:
    given = job.consent.given
    if given in (Given.ASKED, Given.SITE):
        return
    named = "" if job.hint.guessed else job.hint.app or ""  # what fits a pattern may be any program
    if given is Given.REQUEUE and moves.proven is not None and (job.user, named) in moves.proven:
        return
    raise No(Cause.NO_CONSENT, "nobody said that it may be moved")


def check_budget(job: Job, decision: Decision, cluster: Cluster, moves: MoveRules, begun: Sequence[Job]) -> None:
    """Whether one more move of it is within the site's bounds; also what the simulator asks."""
    if job.id in moves.going_on:
        raise No(Cause.TWICE, "it is being moved already")
    if moves.on_way + len(begun) >= moves.at_once:
        raise No(Cause.MOVE_BUDGET, f"{moves.at_once} jobs are being moved already")
    if moves.of_job.get(job.id, 0) >= moves.per_job:
        raise No(Cause.MOVE_BUDGET, f"it was moved {moves.of_job[job.id]} times today")
    if job.user in moves.losers:
        raise No(Cause.MOVE_BUDGET, "moves of its user's jobs have cost more than they brought in this week")
    if _does_not_answer(job, moves):
        raise No(Cause.MOVE_BUDGET, "a job of its user did not answer lately when it was asked to save")
    of_his = [other for other in begun if other.user == job.user]
    saving = moves.saving.get(job.user, 0) + sum(bool(other.consent.signal) for other in of_his)
    if job.consent.signal and saving >= max(2, moves.at_once // 2):  # else one user's long saves keep all others
        raise No(Cause.MOVE_BUDGET, f"{saving} jobs of its user are saving already")
    if moves.of_user.get(job.user, 0) + len(of_his) >= moves.per_user:
        raise No(Cause.MOVE_BUDGET, "its user's jobs were moved often enough in this hour")
    if moves.of_cluster + len(begun) >= moves.per_cluster:
        raise No(Cause.MOVE_BUDGET, "enough jobs were moved in this hour")
    cost = decision.terms.cost_s if decision.terms is not None else 0.0
    lost = moves.lost_gpu_s + cost * sum(map(len, job.gpus))
    most = moves.share * 3600.0 * float(cluster.gpu_exists.sum())
    if lost > most:
        raise No(Cause.MOVE_BUDGET, f"moves would have lost {lost:.0f} GPU seconds in an hour, more than {most:.0f}")


def _free_count(job: Job) -> bool:
    """Its number of nodes was its user's to leave open."""
    original = job.lease.original if job.lease else job.request
    return original.min_nodes != (original.max_nodes or max(original.min_nodes, job.ntasks))


def _check_rivals(job: Job, decision: Decision, snapshot: Snapshot, moves: MoveRules) -> None:
    """A job that waits without a lease would take the GPUs the moment that they are free: a fence keeps it out.

    But not for a move to free GPUs: those it may be waiting for itself.
    """
    terms = decision.terms
    rivals = list(unleased(snapshot, around(job, decision)))
    # It takes no GPU that was free, or what it leaves is theirs.
    for_them = terms is not None and (terms.partners or terms.makes_room_for in {r.id for r in rivals})
    for other in rivals:
        if other.pin is not None and not other.pin.nodes.isdisjoint(around(job, decision)):
            raise No(Cause.WOULD_BE_TAKEN, f"job {other.id} is about to start there")
        if not moves.fence:
            raise No(Cause.WOULD_BE_TAKEN, f"job {other.id} waits without a lease and could take its GPUs")
        if job.consent.ahead_s > MOST_FENCED_S:
            said = (
                f"job {other.id} waits without a lease: whole nodes would be closed to it for {job.consent.ahead_s} s"
            )
            raise No(Cause.WOULD_BE_TAKEN, said)
        if other.gpu_job and decision.action is Action.MOVE and not for_them:
            raise No(
                Cause.WOULD_BE_TAKEN, f"job {other.id} waits without a lease, maybe for the GPUs that it would get"
            )


def around(job: Job, decision: Decision) -> tuple[str, ...]:
    """The nodes that it leaves, and those that it takes."""
    target = decision.placement.nodes if decision.placement is not None else ()
    return tuple(sorted({*job.nodes, *target}))


def unleased(snapshot: Snapshot, nodes: Collection[str]) -> Iterator[Job]:
    """Jobs that Slurm itself may start on these nodes at any moment."""
    cluster = snapshot.cluster
    rows = [cluster.node_index[name] for name in nodes if name in cluster.node_index]
    for other in snapshot.pending:
        if other.why in KEPT or other.is_leased(snapshot.taken) or (other.eligible or 0) > snapshot.taken:
            continue
        names = other.partitions or tuple(cluster.partitions)
        if any(cluster.partitions[name][rows].any() for name in names if name in cluster.partitions):
            yield other


def ring_of(decision: Decision, decisions: Mapping[int, Decision]) -> tuple[int, ...]:
    """The jobs that exchange their GPUs with it, itself first, then those whose GPUs it takes. Empty: none.

    In a ring each takes the GPUs of the next; in a gathering one takes those of several, which take its own. From each
    member all others are reached: nobody takes GPUs of a job that is not one of them.
    """
    found = _reached(decision, decisions)
    if any(len(_reached(decisions[job], decisions)) != len(found) for job in found):
        return ()
    return found


def _reached(decision: Decision, decisions: Mapping[int, Decision]) -> tuple[int, ...]:
    """Itself, those whose GPUs it takes, those whose GPUs these take, and so on. Empty: one of them does not go."""
    found = [decision.job]
    for job in found:  # grows meanwhile
        terms = decisions[job].terms
        for other in terms.partners if terms is not None else ():
            its = decisions.get(other)
            if its is None or its.action is not Action.MOVE or len(found) > MOST_RING:
                return ()
            if other not in found:
                found.append(other)
    return tuple(found) if 1 < len(found) <= MOST_RING else ()
