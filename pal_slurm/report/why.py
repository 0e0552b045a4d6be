"""Why a job got what it got. In: a decision and what was known. Out: a Why to store; later, plain sentences.

`weigh` and `why_of` are called by the daemon when it decides; `sentences` by palctl when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from pal_slurm.model import (
    Action,
    App,
    Cluster,
    Consent,
    Decision,
    Due,
    Given,
    Job,
    Knowledge,
    Placement,
    PoolCost,
    Reason,
    ScoreTable,
    Snapshot,
    factors,
)
from pal_slurm.report.sharing import alone, shares
from pal_slurm.report.text import clock, fold, shown
from pal_slurm.store import Weighed, Why

SOURCES = {
    "told": "told in pal.yaml",
    "app": "learned from its own jobs",
    "runs": "learned from how long its own jobs ran",
    "class": "learned from its class",
    "fleet": "measured in the nightly profile",
    "none": "nothing is known",
}
CHOSEN = "chosen"
_LONGEST_WORD = 80  # of a comment, or of a name, that is kept
SLURM = "Slurm's own choice"


def weigh(what: str, app: App, placement: Placement, cluster: Cluster, scores: ScoreTable) -> Weighed:
    """One placement with the factors of the one equation."""
    f = factors(app, placement, cluster, scores)
    cls = scores.index(app.cls)
    known = [
        bool(scores.known[cls, cluster.node_index[node], slot])
        for node, slots in zip(placement.nodes, placement.gpus, strict=True)
        for slot in slots
    ]
    return Weighed(
        what=what,
        placement=placement,
        base=f.base,
        worst_score=f.worst_score,
        comm=f.comm,
        step_time=f.step_time,
        tier=f.tier.name.lower(),
        known=sum(known) / max(1, len(known)),
    )


def why_of(
    decision: Decision, job: Job, snapshot: Snapshot, knowledge: Knowledge, actuator: str, due: Due | None = None,
    *, same_up: bool = True, parts: bool = False,
) -> Why:  # fmt: skip
    """Everything that `sentences` needs later, when the snapshot is long gone."""
    app = knowledge.apps.get(job.hint.app, job.user)
    cluster = snapshot.cluster
    looked_at = {CHOSEN: decision.placement, SLURM: decision.slurm_placement}
    return Why(
        decision=decision,
        submit=job.submit,
        decided_at=snapshot.taken,
        actuator=actuator,
        app=job.hint.app,
        app_known=job.hint.app in knowledge.apps.known,
        cls=app.cls,
        gpus=job.shape.least_gpus if job.shape else 0,
        free_gpus=_free(cluster, job.partitions),
        ahead=decision.rank,
        weighed=tuple(weigh(what, app, p, cluster, knowledge.scores) for what, p in looked_at.items() if p),
        pinnable=job.shape is not None,
        consent=job.consent,
        user=job.user,
        due=due,
        same=_same(job),
        same_up=same_up,
        share=job.hint.share,
        alone=alone(job, snapshot, parts=parts) if job.hint.share else "",
        tasks=len(job.array_tasks),
        name=job.name[:_LONGEST_WORD],
        unread=job.hint.unread[:_LONGEST_WORD] or ("-" if job.hint.dropped else ""),
    )


def _same(job: Job) -> str:
    """What pal:same holds it to; it says nothing of a job that never ran."""
    if not job.hint.same or not (job.restarts or job.nodes):
        return ""
    return "+".join(job.types) or "-"


@lru_cache(maxsize=4)
def _free(cluster: Cluster, partitions: tuple[str, ...]) -> int:
    """Free GPUs in any of these partitions; asked once per job, so it is worked out once per plan."""
    allowed = [cluster.partitions[name] for name in partitions if name in cluster.partitions]
    free = cluster.gpu_free & cluster.node_ok[:, None]  # those of a drained node are no use to anybody
    return int(free[np.logical_or.reduce(allowed)].sum() if allowed else free.sum())


REASONS = {
    Reason.BEST_SPAN: "Of everything that it may be given and that was free, this has the least step time.",
    Reason.NO_ROOM: "Nothing that it may be given was free.",
    Reason.KEPT_FOR_MOVER: "GPUs that it could have are kept, for half a minute at most, for a job that was requeued "
    "to be moved there.",
    Reason.BEHIND_HEAD: "It would fit, but would delay a job that is ahead of it, so it waits.",
    Reason.BETTER_GPUS_SOON: "It could start, but what is free would cost it more than a short wait for better GPUs.",
    Reason.BETTER_POOL_SOON: "It could start, but on a GPU model that costs it, and those who wait with it, more than "
    "the wait for another.",
    Reason.BETTER_SPAN_SOON: "It could start, but GPUs closer together are expected soon.",
    Reason.CANT_PIN: (
        "Its request can't be rewritten for chosen GPUs, or only Slurm can tell where it may start now; Slurm places "
        "it by itself, in its turn."
    ),
    Reason.REFUSED: "A pin of it was refused, or would have changed what it asks for; Slurm places it by itself.",
    Reason.PALD_FAULT: "Deciding about it failed, by a fault of pald (its journal tells); Slurm places it by itself.",
    Reason.WANTS_OFF: "Its comment says pal:off, so Slurm places it by itself, in its turn.",
    Reason.OUTSIDE_CANARY: "pal-slurm is rolled out to a part of the jobs so far, and this is none of them (canary in "
    "pal.yaml); Slurm places it by itself, in its turn.",
    Reason.NOT_ELIGIBLE: "It can't start yet for reasons of its own: a dependency, a limit, a begin time.",
    Reason.NEUTRAL: "Nothing is known that could tell one free GPU from another, so it is packed.",
    Reason.NOTHING_BETTER: "Nothing is known that could tell one GPU from another, and it runs on one node wherever it "
    "starts; Slurm places it by itself, in its turn.",
    Reason.OVER_SOON: "Jobs like it are over so soon that better GPUs would save it less than waiting for pald "
    "costs; Slurm places it by itself, in its turn.",
    Reason.PAST_PLANNED_START: "Jobs that pald does not lease kept it waiting past its planned start; it is released "
    "as it is, so that Slurm's backfill reserves for it.",
    Reason.MAY_PREEMPT: "No GPUs that it may be given are free, and Slurm may start it in the place of jobs of a lower "
    "partition: it is released as it is.",
    Reason.OVERTAKEN: "Jobs that pald does not lease would start ahead of it; it is released as it is, so that Slurm "
    "itself keeps its turn.",
    Reason.LEASE_RAN_OUT: "Its lease ran out before pald renewed it, and Slurm can't start it for now: it is leased "
    "again, to be placed in its turn.",
    Reason.BETTER_GPUS: "Other GPUs, free ones or those of a job that takes its own, are worth what a move costs it.",
    Reason.MAKES_ROOM: "Where it runs a job that waits could start, and it can run elsewhere.",
    Reason.SLOWER_NODES: "It runs slower on some nodes than on the others that it may have: those are excluded while "
    "it waits, and Slurm places it in its turn.",
    Reason.SHARES: "No GPU is free for it, and beside a job of its owner's both together do more than that one alone.",
    Reason.FOREIGN: "It bears no lease of ours, so pald does not touch it.",
    Reason.HELD: "It is held.",
}


def still_true(decided: Iterable[Why]) -> list[Why]:
    """Without what was decided about an array, where each task that waited then has a decision of its own since."""
    every = list(decided)
    own: dict[tuple[int, int], list[float]] = {}
    for why in every:
        if why.ref.task is not None:
            own.setdefault(why.ref[:2], []).append(why.decided_at)
    return [w for w in every if not 0 < w.tasks <= sum(at >= w.decided_at for at in own.get(w.ref[:2], ()))]


def sentences(why: Why) -> Iterator[str]:
    """What was known, what was weighed, what came out."""
    yield _what_it_is(why)
    yield _verdict(why)
    yield REASONS[why.decision.reason]
    yield from filter(None, (_unread(why.unread), _held_to(why), shares(why), _owed(why.due)))
    if why.decision.action is Action.WAIT:
        free = "" if why.free_gpus is None else f"{_were_free(why.free_gpus)} in its partitions when the plan began"
        ahead = "" if why.ahead is None else f"{_count(why.ahead, 'job')} came before it"
        if told := "; ".join(filter(None, (free, ahead))):
            yield f"{told}."
    for pool in sorted(why.decision.weighed, key=lambda pool: pool.cost_s):
        yield _pool(pool)
    for weighed in why.weighed:
        yield _weighed(weighed)
    if why.decision.action is not Action.PLAIN and (gain := _gain(why)):  # else the choice is Slurm's own
        yield gain
    if moves := _moves(why.consent):
        yield moves


def where(placement: Placement) -> str:
    """Nodes and slots: `n[1-2]:g0,g3`."""
    by_slots: dict[tuple[int, ...], list[str]] = {}
    for node, slots in zip(placement.nodes, placement.gpus, strict=True):
        by_slots.setdefault(slots, []).append(node)
    return " ".join(f"{fold(nodes)}:{','.join(f'g{s}' for s in slots)}" for slots, nodes in by_slots.items())


_CONSENT = {
    Given.ASKED: "It may be moved while it runs, for its comment says pal:move",
    Given.SITE: "It may be moved while it runs, as all jobs of its QOS or partition (moves in pal.yaml).",
    Given.REQUEUE: "It said --requeue: it may be moved while it runs where moves.mode in pal.yaml is proven, and jobs "
    "of its user and application were seen to resume after requeues.",
    Given.NOT: "",
    Given.STAY: "It is not moved while it runs, for its comment says pal:stay or pal:off.",
    Given.NO_REQUEUE: "It is not moved while it runs, for it can't be requeued: it said --no-requeue, is no batch job, "
    "or the site requeues only jobs that say --requeue.",
    Given.TAKEN_BACK: "It is not moved while it runs: it said pal:move when it was submitted, and its comment no "
    "longer says so.",
    Given.UNREAD: "It is not moved while it runs, for its comment, or what it says of moves, can't be read.",
}


def _moves(consent: Consent) -> str:
    if not consent.asked:
        return _CONSENT[consent.given]
    told = [_CONSENT[consent.given]]
    if consent.cost_s is not None:
        told.append(f"a restart costs it {consent.cost_s} s")
    if consent.signal:
        whom = "its batch script" if consent.to_script else "its steps"
        then = "it is requeued" if consent.unanswered else "it is left running unless it requeues itself"
        told.append(f"SIG{consent.signal} goes to {whom} first; after {consent.ahead_s} s {then}")
    return "; ".join(told) + "."


def _what_it_is(why: Why) -> str:
    job = f"Job {why.decision.job}" + (", each task of the array," if why.tasks else "")
    if why.decision.task is not None:
        job = f"Job {why.decision.job}, array task {why.decision.task},"
    asked = f"{job} asks for {_count(why.gpus, 'GPU')}" if why.pinnable else f"{job} asks in a way that can't be pinned"
    if why.app is None:
        return f"{asked} and names no application; that counts as class {why.cls}."
    if not why.app_known:
        return f"{asked} and runs {shown(why.app)}, which nobody has described; that counts as class {why.cls}."
    return f"{asked} and runs {shown(why.app)}, class {why.cls}."


def _verdict(why: Why) -> str:
    decision = why.decision
    if decision.action is Action.START and decision.placement is not None:
        verb = "is placed" if why.actuator != "shadow" else "would be placed (shadow: nothing was changed)"
        how = "exactly these devices" if decision.placement.exact else "these nodes; Slurm takes the devices"
        return f"It {verb} on {where(decision.placement)} ({how})."
    return {
        Action.START: "It is placed.",
        Action.PLAIN: "It is released as it is.",
        Action.WAIT: "It waits.",
        Action.LEAVE: "It is left alone.",
        Action.MOVE: "It is to be moved.",
        Action.STOP: "It is to be stopped.",
        Action.EXCLUDE: "It is kept off slower nodes.",
    }[decision.action]


def _unread(word: str) -> str:
    if word == "-":
        return "Nothing in its comment counts: it is too long, or has control characters or bytes that are no UTF-8."
    if word.startswith("app:"):
        return f"Its comment says {shown(word)}: a name is a letter or digit, then up to 63 letters, digits or ._+-."
    return f"Its comment says {shown(word)}, which means nothing here." if word else ""


def _owed(due: Due | None) -> str:
    if due is None:
        return ""
    whose = f"By {due.entitlement} it is owed"
    parts = [
        f"{share:.0%} of its time on {shown(pool)}"
        for pool, share in zip(due.pools, due.shares or [0.0] * len(due.pools), strict=True)
        if share >= 0.005
    ]
    told = f"{whose} {', '.join(parts) or ('nothing for now' if due.shares else 'what is not worked out yet')}"
    told = f"{told}: {due.owed_s:.0f} s of its best GPUs by then; {shown(due.owner)} weighs {due.weight:.3g}"
    if due.untold:
        told += f" (as of {clock(due.asked)}: Slurm has not told since)" if due.asked else " (Slurm tells no weights)"
    if due.gpus is None:
        return f"{told}."
    return f"{told}. {shown(due.user)} is owed {due.gpus:.3g} GPUs there and had {due.has}."


def _held_to(why: Why) -> str:
    if not why.same:
        return ""
    if why.same == "-":
        return (
            "It says pal:same, and may have any model: the one on which it first ran is not known, or none of its GPUs "
            "could be used for as long as pools.wait_s."
        )
    held = f"It says pal:same, so it has GPUs of {shown(why.same)} only, on which it first ran."
    if why.same_up:
        return held
    return f"{held} None of them can be used now; once it has waited for pools.wait_s it may have others."


def _weighed(w: Weighed) -> str:
    told = "" if w.known == 1.0 else f" ({w.known:.0%} of these GPUs have a score; the others count as 1.0)"
    return (
        f"{w.what[0].upper()}{w.what[1:]}: {where(w.placement)}, span {w.tier}: {w.base:.4g} s/step x "
        f"{w.worst_score:.3f} (slowest GPU) x {w.comm:.3f} (span) = {w.step_time:.4g} s/step{told}."
    )


def _pool(pool: PoolCost) -> str:
    doubt = "" if pool.source == "told" else f" +-{pool.doubt:.0%}"
    room = {True: "free", False: f"taken, {pool.wait_s:.0f} s to wait", None: "not looked for room there"}[pool.free]
    return (
        f"Pool {shown(pool.pool)}: {pool.step_time:.4g} s/step, rate {pool.rate:.2f}{doubt} ({SOURCES[pool.source]}); "
        f"{room}; a second there costs those who wait {pool.price:.2f} s; in all {pool.cost_s:.0f} s."
    )


def _gain(why: Why) -> str:
    ours, theirs = why.decision.step_time, why.decision.slurm_step_time
    if ours is None or theirs is None or theirs <= 0:
        return ""
    if abs(ours - theirs) <= 1e-9 * theirs:
        return "Slurm's own choice would have cost the same."
    share = theirs / ours - 1.0
    more = "more" if share > 0 else "less"
    return f"Slurm's own choice would have cost {theirs:.4g} s/step, {abs(share):.1%} {more} than {ours:.4g} s/step."


def _were_free(gpus: int) -> str:
    return f"{_count(gpus, 'GPU')} {'was' if gpus == 1 else 'were'} free"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
