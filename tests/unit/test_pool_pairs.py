"""Pairs of jobs on one GPU: what is estimated of those that nobody measured, and who shares in the simulator."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pal_slurm.model import App, JobKind, Sharers, Sharing, neutral_scores
from pal_slurm.model.likely import completed, likely
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine, Run
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.workload import Work, Workload, workload

MODELS = ("fast", "slow")
LIGHT, HEAVY = App("light", "A", {"fast": 1.0, "slow": 10.0}), App("heavy", "A", {"fast": 1.0, "slow": 1.1})


KINDS = (JobKind("light", 1), JobKind("heavy", 1))
CHEAP = Sharing({Sharers(x, y, model): 1.1 if x != y else 1.2 for x in KINDS for y in KINDS for model in MODELS})


def neighbours(draw: np.random.Generator, n: int) -> Sharing:
    """Each application hurts others by what it is, and minds it by what it is."""
    hurts, minds = draw.uniform(0.0, 0.4, n), draw.uniform(0.2, 1.0, n)
    kinds = [JobKind(f"k{i:02}", 1) for i in range(n)]
    told = {}
    for i, one in enumerate(kinds):
        for j, other in enumerate(kinds):
            fits = (i + j) % 7 != 0
            for m in MODELS:
                told[Sharers(one, other, m)] = 1.0 / (1.0 - hurts[j] * minds[i]) if fits else math.inf
    return Sharing(told)


def test_what_nobody_measured_is_estimated_better_than_by_the_mean() -> None:
    truth = neighbours(np.random.default_rng(2), 20)
    told = truth.told_of(0.4, 1)
    assert 0.3 < len(told.beside) / len(truth.beside) < 0.5
    assert all(Sharers(p.other, p.one, p.model) in told.beside for p in told.beside)
    unknown = [pair for pair in truth.beside if pair not in told.beside]
    found = likely(told.beside, MODELS)
    guessed = {pair: found[pair] for pair in unknown if found.get(pair, math.inf) < math.inf}
    both = [pair for pair in guessed if truth.beside[pair] < math.inf]
    assert len(both) > 0.5 * len(unknown)
    middle = np.mean([1 / factor for factor in told.beside.values() if factor < math.inf])
    off = np.mean([(1 / guessed[p] - 1 / truth.beside[p]) ** 2 for p in both])
    assert off < 0.5 * np.mean([(middle - 1 / truth.beside[p]) ** 2 for p in both])


def test_of_an_application_that_nobody_has_seen_beside_others_nothing_is_estimated() -> None:
    truth = neighbours(np.random.default_rng(2), 10)
    new = JobKind("k03", 1)
    told = Sharing({p: factor for p, factor in truth.beside.items() if new not in p[:2]})
    assert not any(new in pair[:2] for pair in likely(told.beside, MODELS))


def test_a_full_table_is_its_own_completion() -> None:
    table = np.random.default_rng(1).random((6, 12))
    assert (completed(table, np.ones_like(table, dtype=np.bool_)) == table).all()
    assert not completed(table, np.zeros_like(table, dtype=np.bool_)).any()


def test_in_the_simulator_no_gpu_has_three_and_who_did_not_say_so_has_his_alone() -> None:
    load = _load(60)
    rules = ClusterRules(restart_cost_s=60.0)
    setting = Setting(parse_cluster("fast:3x1+slow:3x1"), 1.0, rules, True)
    ran = {}
    for share in (0.0, 0.7):
        shared = load.sharing(share, 1)
        known = neutral_scores(setting.cluster)
        scheduler = scheduler_for(PolicySpec(policy="pal"), setting, known, 0, CHEAP)
        engine = Engine(setting.cluster, known, shared, scheduler, rules, sharing=CHEAP)
        act = scheduler.act

        def checked(stage: Engine, act=act, engine=engine) -> None:  # type: ignore[no-untyped-def]
            act(stage)
            on: dict[int, list[Run]] = {}
            for run in engine._runs:
                for gpu in run.gpus:
                    on.setdefault(gpu, []).append(run)
            assert all(len(runs) == 1 or all(run.work.shares for run in runs) for runs in on.values())
            assert max(map(len, on.values()), default=0) <= 2

        scheduler.act = checked  # type: ignore[method-assign, assignment]
        ran[share] = engine.run()
    assert ran[0.0].shared_gpu_seconds == 0.0
    assert ran[0.7].figures()["shared"] > 0.1
    assert ran[0.7].avg_jct_s < ran[0.0].avg_jct_s


@pytest.mark.parametrize(("users", "share"), [("uu", True), ("uv", False)])
def test_nobody_shares_with_another_user(users: str, share: bool) -> None:
    one = parse_cluster("fast:1x1")
    load = workload(Work(n, float(n), 1, 3600.0, LIGHT, user=user, shares=True) for n, user in enumerate(users))
    known, rules = neutral_scores(one), ClusterRules()
    scheduler = scheduler_for(PolicySpec(policy="pal"), Setting(one, 1.0, rules, False), known, 0, CHEAP)
    done = Engine(one, known, load, scheduler, rules, sharing=CHEAP).run()
    assert (done.shared_gpu_seconds > 0) == share


def _load(jobs: int) -> Workload:
    draw = np.random.default_rng(5)
    return workload(
        Work(i, 300.0 * i, 1, float(draw.uniform(600, 6000)), (LIGHT, HEAVY)[int(draw.integers(2))])
        for i in range(jobs)
    )
