"""Mutants of how pald moves running jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pal_slurm.daemon.moves.budget as budget
import pal_slurm.daemon.moves.machine as machine
import pal_slurm.daemon.moves.movers as movers
import pal_slurm.daemon.moves.proposing as proposing
import pal_slurm.guard.running as running
import pal_slurm.learning.standing as standing
import pal_slurm.sim.slurm.jobs as sim_jobs
from pal_slurm.daemon.moves.movers import Movers
from pal_slurm.daemon.moves.scene import Do, Later, Scene
from pal_slurm.guard import Cause, MoveRules
from pal_slurm.guard.verdict import No
from pal_slurm.model import Consent, Edit, EditKind, Given, Intent, Job, Move
from tests.fuzz.mutants import mutant, was

Patches = Sequence[tuple[object, str, Any]]


def _rules(**other: object) -> Patches:
    """What the guard is told of pal.yaml and of earlier moves."""
    made = was(movers, "rules_of_moves")

    def changed(*words: Any) -> MoveRules | None:
        rules: MoveRules | None = made(*words)
        return rules and replace(rules, **other)  # type: ignore[arg-type]

    return [(movers, "rules_of_moves", changed)]


@mutant("jobs that nobody said may be moved are moved")
def moved_unasked() -> Patches:
    to_job = was(sim_jobs, "to_job")

    def willing(*words: Any) -> Job:
        job: Job = to_job(*words)
        given = job.consent if job.consent.given is Given.ASKED else Consent(Given.ASKED)
        return replace(job, consent=given)

    return [(sim_jobs, "to_job", willing)]


@mutant("a job is moved in its first minutes")
def first_minutes_ignored() -> Patches:
    return _rules(first_s=0.0)


@mutant("a job is moved right before its limit")
def last_minutes_ignored() -> Patches:
    return _rules(last_s=-600.0)


@mutant("earlier moves are not counted: to and fro without end")
def moved_to_and_fro() -> Patches:
    return _rules(of_job={}, per_job=1000, of_cluster=0, of_user={})


@mutant("the signal that a job wanted is not sent: it is requeued at once")
def not_asked_to_save() -> Patches:
    make = was(movers, "begun_as")
    return [(movers, "begun_as", lambda *words: replace(make(*words), signal=""))]


@mutant("a job that was asked to save is not given its time")
def time_to_save_cut() -> Patches:
    make = was(movers, "begun_as")
    return [(movers, "begun_as", lambda *words: replace(make(*words), ahead_s=0))]


@mutant("a job that does not answer is requeued")
def silence_is_consent() -> Patches:
    make = was(movers, "begun_as")
    return [(movers, "begun_as", lambda *words: replace(make(*words), unanswered=True))]


@mutant("a job that is silent is asked to save again and again")
def asked_again() -> Patches:
    step = was(movers, "next_step")

    def nagging(move: Move, steps: Sequence[Intent], job: Job | None, scene: Scene) -> Any:
        answer = step(move, steps, job, scene)
        if job is not None and isinstance(answer, Later) and steps[-1].edit.kind is EditKind.WARN and not job.pending:
            return Do(steps[-1].edit)
        return answer

    return [(movers, "next_step", nagging)]


@mutant("a user who takes his word back while his job is asked is not heard")
def word_taken_back_ignored() -> Patches:
    return [(machine, "_no_more", lambda *words: "")]


@mutant("the nice that put a mover ahead stays")
def nice_kept() -> Patches:
    return [(machine, "_give_nice_back", lambda *words: None)]


@mutant("a mover that is held keeps its place ahead of the queue")
def held_ahead() -> Patches:
    return [(machine, "held", lambda job: False)]


@mutant("the priority that a user kept when he wrote over a mover's nice stays")
def priority_kept() -> Patches:
    return [(machine, "wrote_over_our_nice", lambda *words: False)]


@mutant("who is on his way is forgotten: nobody takes the next step")
def movers_forgotten() -> Patches:
    return [(Movers, "tend", lambda self, *words: None)]


@mutant("of two that exchange their GPUs, one is pinned before the other is gone")
def partner_not_waited_for() -> Patches:
    return [(movers, "holds", lambda job, where: False), (Movers, "_blocked", lambda self, *words: "")]


@mutant("GPUs are kept for a mover that was only asked to go")
def kept_for_the_silent() -> Patches:
    promised = was(Movers, "promised")
    return [(Movers, "promised", lambda self, **_: promised(self, asked=True))]


@mutant("what is free is not looked at once more before a mover is pinned")
def target_not_looked_at_again() -> Patches:
    return [(Movers, "_blocked", lambda self, *words: "")]


@mutant("a requeued mover keeps the request of its last run")
def requeue_leaves_the_pin() -> Patches:
    step = was(movers, "first_step")

    def as_it_runs(move: Move, job: Job, *words: Any) -> Edit:
        edit: Edit = step(replace(move, original=job.request), job, *words)
        return edit

    return [(movers, "first_step", as_it_runs)]


@mutant("the guard lets pass whatever is proposed of running jobs")
def guard_of_movers_says_yes() -> Patches:
    def any_of_them(job: Any, now: float, rules: Any) -> Any:
        if rules.moves is None or job is None:
            raise No(Cause.MOVES_OFF, "moves are switched off")
        return rules.moves

    return [(running, "_check_job", any_of_them), (running, "check_budget", lambda *words: None)]


@mutant("moves go on, though they have cost more than they brought")
def losses_ignored() -> Patches:
    return [(budget, "losing", lambda week: False)]


@mutant("a move need not gain what it costs")
def moves_for_nothing() -> Patches:
    by_value = was(proposing, "ByValue")

    def cheap(view: Any, knowledge: Any, placer: Any, margin: float, *rest: Any, **named: Any) -> Any:
        return by_value(view, knowledge, placer, 0.0, *rest, **named)

    return [(proposing, "ByValue", cheap)]


@mutant("what one user's samples claim is believed, without a second witness")
def one_witness_believed() -> Patches:
    return [(standing, "allowed", lambda anchor, votes: (-math.inf, math.inf))]
