"""Running jobs that go to another GPU model: where speeds are known and it pays; never one that says pal:same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pal_slurm.daemon.same import held_to_models
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Consent,
    Decision,
    Given,
    Hint,
    Job,
    Knowledge,
    PoolRules,
    RatedApp,
    Reason,
    Snapshot,
    Trust,
    neutral_scores,
)
from pal_slurm.policy import compose
from pal_slurm.policy.moving.value import ByValue, MayMove
from pal_slurm.report.why import sentences, why_of
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.store import JobOutcome
from tests.builders import NOW, leased, running, snapshot

SLOW, FAST = "n1", "n2"
CLUSTER = parse_cluster("slow:1x2+fast:1x2")
FUSSY, EASY = App("fussy", "A", {"slow": 4.0, "fast": 1.0}), App("easy", "A", {"slow": 1.1, "fast": 1.0})
UNSURE = RatedApp("unsure", "A", {"slow": 1.3, "fast": 1.0}, trusts={"fast": Trust(0.5, "class")})
APPS = Apps({app.name: app for app in (FUSSY, EASY, UNSURE)})
HOUR_S = 3600
ASKED = Consent(Given.ASKED)


def runs(number: int, node: str, slots: tuple[int, ...], app: str | None, **facts: Any) -> Job:
    told = {"submit": NOW - 2 * HOUR_S, "start": NOW - HOUR_S, "partitions": ("gpu",), "consent": ASKED}
    return running(number, {node: slots}, NOW + 20 * HOUR_S, **{**told, "hint": Hint(app), **facts})


def moves(
    *jobs: Job, rules: PoolRules | None = None, cost_s: float = 60.0, crowded: bool = False, known: Apps = APPS
) -> dict[int, Decision]:
    free = CLUSTER.gpu_free.copy()
    for job in jobs:
        for node, slots in zip(job.nodes, job.gpus, strict=True):
            free[CLUSTER.node_index[node], list(slots)] = False
    seen = held_to_models(snapshot(*jobs, cluster=replace(CLUSTER, gpu_free=free)), lambda _: (), 1800.0)
    knows = Knowledge(neutral_scores(CLUSTER), known, rules or PoolRules("ok"))
    look = ByValue(seen, knows, compose("pal").placement, margin=2.0, most=8, crowded=crowded)
    return {d.job: d for d in look.moves([MayMove(job, cost_s) for job in seen.running])}


def goes(found: dict[int, Decision]) -> dict[int, str]:
    return {job: d.placement.nodes[0] for job, d in found.items() if d.placement is not None}


def test_a_job_goes_to_a_free_model_on_which_it_is_faster() -> None:
    found = moves(runs(1, SLOW, (0,), "fussy"))
    assert goes(found) == {1: FAST}
    assert found[1].reason is Reason.BETTER_GPUS and found[1].step_time == 1.0
    assert found[1].terms is not None and found[1].terms.gain_s == pytest.approx(HOUR_S * 0.75)


def test_while_jobs_wait_free_gpus_of_another_model_are_not_for_those_who_run() -> None:
    assert goes(moves(runs(1, SLOW, (0,), "fussy"), crowded=True)) == {}
    both = (runs(1, SLOW, (0, 1), "fussy"), runs(2, FAST, (0, 1), "easy"))
    assert goes(moves(*both, crowded=True)) == {1: FAST, 2: SLOW}  # an exchange takes nothing from anybody


def test_it_stays_where_that_would_not_pay_for_the_move() -> None:
    assert goes(moves(runs(1, SLOW, (0,), "easy"), cost_s=300.0)) == {}
    assert goes(moves(runs(1, FAST, (0,), "fussy"))) == {}


@pytest.mark.parametrize("base", [{"slow": 4.0}, {"fast": 0.2}, {"slow": 0.2}, {"fast": 4.0}])
def test_nobody_goes_to_or_from_a_model_on_which_its_speed_is_not_known(base: dict[str, float]) -> None:
    """Not even in an exchange: the other one would win much."""
    known = Apps({**APPS.known, "half": App("half", "A", base)})
    here, other = (SLOW, FAST) if base.keys() == {"slow"} else (FAST, SLOW)
    for at in (here, other):
        one = runs(1, at, (0, 1), "half")
        assert goes(moves(one, known=known)) == {}
        beside = runs(2, FAST if at == SLOW else SLOW, (0, 1), "fussy" if at == FAST else "easy")
        assert goes(moves(one, beside, known=known)) == {}


@pytest.mark.parametrize(
    ("app", "facts"),
    [
        (None, {}),  # nothing is known
        ("unsure", {}),  # what it may win is less than the doubt
        ("fussy", {"hint": Hint("fussy", same=True)}),
        ("fussy", {"types": ("slow",)}),
        ("fussy", {"excluded_nodes": FAST}),
    ],
)
def test_it_keeps_its_model(app: str | None, facts: dict[str, Any]) -> None:
    assert goes(moves(runs(1, SLOW, (0,), app, **facts))) == {}


def test_no_job_is_moved_to_a_dearer_model_unasked() -> None:
    dear = PoolRules("ask", {"fast": 2.0, "slow": 1.0})
    assert goes(moves(runs(1, SLOW, (0,), "fussy"), rules=dear)) == {}
    assert goes(moves(runs(1, SLOW, (0,), "fussy", hint=Hint("fussy", dearer=True)), rules=dear)) == {1: FAST}


def test_two_exchange_their_models_where_one_loses_little_and_the_other_wins_much() -> None:
    found = moves(runs(1, SLOW, (0, 1), "fussy"), runs(2, FAST, (0, 1), "easy"))
    assert goes(found) == {1: FAST, 2: SLOW}
    assert found[1].terms is not None and found[1].terms.partner == 2
    same = Hint("easy", same=True)
    assert goes(moves(runs(1, SLOW, (0, 1), "fussy"), runs(2, FAST, (0, 1), "easy", hint=same))) == {}


def test_nobody_is_made_slower_by_a_tenth_for_another_users_sake() -> None:
    """Of one user's jobs one may lose what the other one wins."""
    assert goes(moves(runs(1, SLOW, (0, 1), "fussy", user="a"), runs(2, FAST, (0, 1), "easy", user="b"))) == {}
    hardly = App("hardly", "A", {"slow": 1.01, "fast": 1.0})
    known = Apps({**APPS.known, "hardly": hardly})
    pair = (runs(1, SLOW, (0, 1), "fussy", user="a"), runs(2, FAST, (0, 1), "hardly", user="b"))
    assert goes(moves(*pair, known=known)) == {1: FAST, 2: SLOW}


def test_nobody_is_made_much_slower_for_another_ones_sake() -> None:
    unlike = App("unlike", "A", {"slow": 2.0, "fast": 1.0})
    known = replace(APPS, known={**APPS.known, "unlike": unlike})
    jobs = (runs(1, SLOW, (0, 1), "fussy"), runs(2, FAST, (0, 1), "unlike"))
    free = replace(CLUSTER, gpu_free=CLUSTER.gpu_free & False)
    look = ByValue(
        snapshot(*jobs, cluster=free), Knowledge(neutral_scores(CLUSTER), known), compose("pal").placement, 2.0, 8
    )
    assert look.moves([MayMove(job, 60.0) for job in jobs]) == []


# pal:same

SAME = Hint("fussy", same=True)


def held(*jobs: Job, got: tuple[JobOutcome, ...] = (), cluster: Cluster = CLUSTER) -> Snapshot:
    return held_to_models(snapshot(*jobs, cluster=cluster), lambda _: got, 1800.0)


def outcome(start: int, node: str, submit: int = NOW) -> JobOutcome:
    return JobOutcome(1, submit, start, "A", (node,), ((0,),), user="u1")


def test_a_job_that_waits_for_its_second_run_is_held_to_the_model_of_its_first() -> None:
    again = leased(1, submit=NOW, hint=SAME, restarts=1)
    seen = held(again, got=(outcome(NOW - 90, FAST, NOW - 999), outcome(NOW + 5, SLOW), outcome(NOW + 50, FAST)))
    assert seen.pending[0].types == ("slow",)  # the first start of this very job


def test_so_is_one_that_slurm_requeued_and_gave_a_new_submit_time() -> None:
    runs = (outcome(NOW - 950, FAST, NOW - 999), outcome(NOW - 90, SLOW, NOW - 99), outcome(NOW - 40, FAST, NOW - 50))
    again = leased(1, submit=NOW, hint=SAME, restarts=2, user="u1")
    assert held(again, got=runs).pending[0].types == ("slow",)  # before that, its id was another job's
    for other in ("u2", ""):  # of a run of which nobody wrote whose it was nothing follows
        assert held(again, got=tuple(replace(run, user=other) for run in runs)).pending[0].types == ()


@pytest.mark.parametrize("job", [leased(1, hint=SAME), leased(1, hint=Hint("fussy"), restarts=1)])
def test_who_never_ran_or_does_not_say_so_is_held_to_nothing(job: Job) -> None:
    assert held(job, got=(outcome(NOW, SLOW, job.submit),)).pending[0].types == ()


def test_the_store_is_asked_once_about_all_who_wait_for_another_run() -> None:
    jobs = [leased(n, submit=NOW, hint=SAME, restarts=1) for n in (1, 2, 3)]
    asked: list[list[int]] = []

    def got(numbers: Sequence[int]) -> Sequence[JobOutcome]:
        asked.append(list(numbers))
        return [replace(outcome(NOW, SLOW), job=n) for n in numbers]

    seen = held_to_models(snapshot(*jobs, leased(4, hint=SAME), cluster=CLUSTER), got, 1800.0)
    assert asked == [[1, 2, 3]] and [job.types for job in seen.pending] == [("slow",)] * 3 + [()]


@pytest.mark.parametrize(("waited_s", "to"), [(1799, ("slow",)), (1800, ())])
def test_a_job_waits_for_a_model_none_of_which_is_up_no_longer_than_for_any_pool(
    waited_s: int, to: tuple[str, ...]
) -> None:
    drained = replace(CLUSTER, node_ok=np.array([name != SLOW for name in CLUSTER.node_names]))
    job = leased(1, submit=NOW - 9000, since=NOW - waited_s, hint=SAME, restarts=1)
    got = (outcome(NOW - 8000, SLOW, job.submit),)
    waits = held(job, got=got, cluster=drained)
    assert waits.pending[0].types == to
    assert held(job, got=got).pending[0].types == ("slow",)  # while some are up it waits its turn
    decision = Decision(1, None, Action.WAIT, Reason.NO_ROOM)
    told = list(
        sentences(
            why_of(decision, waits.pending[0], waits, Knowledge(neutral_scores(CLUSTER), APPS), "pin", same_up=False)
        )
    )
    assert any("pal:same" in line and ("may have others" in line or "may have any model" in line) for line in told)


def test_what_a_user_named_himself_stands() -> None:
    job = leased(1, submit=NOW, hint=SAME, restarts=1, types=("fast",))
    assert held(job, got=(outcome(NOW, SLOW),)).pending[0].types == ("fast",)
