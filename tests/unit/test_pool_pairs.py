"""Two jobs on the same GPUs in `pools`: who joins whom, and what becomes of a couple."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from pal_slurm.model import App, JobKind, Knowledge, Sharers, Sharing, neutral_scores
from pal_slurm.model.likely import LEAST, completed
from pal_slurm.policy import Circumstances, Plan, Planner, Progress
from pal_slurm.policy.composition import compose
from pal_slurm.policy.moving.pools import Pools
from pal_slurm.policy.pools.pairing import GAIN, Sharer, gain, owner_of, paired
from pal_slurm.policy.pools.partners import PairBook
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine, Run
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.workload import Work, Workload, workload

MODELS = ("fast", "slow")
CLUSTER = parse_cluster("fast:1x1+slow:1x1")
LIGHT, HEAVY = App("light", "A", {"fast": 1.0, "slow": 10.0}), App("heavy", "A", {"fast": 1.0, "slow": 1.1})


def costs(**factors: float) -> Sharing:
    """light_heavy=1.2: that of the first beside the second, everywhere."""
    told: dict[Sharers, float] = {}
    for pair, factor in factors.items():
        one, other = pair.split("_")
        told |= {Sharers(JobKind(one, 1), JobKind(other, 1), model): factor for model in MODELS}
    return Sharing(told)


CHEAP = costs(light_heavy=1.1, heavy_light=1.1, light_light=1.2, heavy_heavy=1.2)


def planner(sharing: Sharing = CHEAP, *, movable: bool = True, cluster: str = "fast:1x1") -> Planner:
    facts = Circumstances(alone=True, movable=lambda _: movable, move_cost_s=60.0)
    composition = replace(compose("pal", order="fifo", moving="pools"), moving=Pools(learns=False, sharing=sharing))
    parsed = parse_cluster(cluster)
    return Planner(composition, parsed, Knowledge(neutral_scores(parsed)), facts=facts)


def come(made: Planner, job: int, app: App, *, shares: bool = True, user: str = "eva") -> None:
    work = Work(job, float(job), 1, 1e6, app, user=user, shares=shares)
    made.arrive(work.as_job(), app, Progress())


def placed(plan: Plan) -> dict[int, str]:
    return {d.job: d.placement.nodes[0] for d in (*plan.moves, *plan.starts) if d.placement is not None}


def test_who_waits_gets_the_gpu_of_one_that_shares_too() -> None:
    made = planner()
    come(made, 1, LIGHT)
    come(made, 2, HEAVY)
    plan = made.act(0.0)
    assert set(placed(plan)) == {1, 2}
    assert len({d.placement for d in plan.starts}) == 1


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (False, False)])
def test_nobody_shares_who_did_not_say_so(first: bool, second: bool) -> None:
    made = planner()
    come(made, 1, LIGHT, shares=first)
    come(made, 2, HEAVY, shares=second)
    assert list(placed(made.act(0.0))) == [1]


def test_nobody_shares_with_another_user() -> None:
    made = planner()
    come(made, 1, LIGHT, user="eva")
    come(made, 2, HEAVY, user="adam")
    assert list(placed(made.act(0.0))) == [1]
    job = Work(1, 0.0, 1, 1.0, LIGHT, user="eva").as_job()
    assert owner_of(replace(job, account="ml")) == owner_of(replace(job, account="ml", user="adam")) != owner_of(job)


def test_a_pair_that_nobody_knows_or_that_brings_little_is_none() -> None:
    for sharing in (costs(light_heavy=1.1), costs(light_heavy=1.9, heavy_light=1.9)):
        made = planner(sharing)
        come(made, 1, LIGHT)
        come(made, 2, HEAVY)
        assert list(placed(made.act(0.0))) == [1]


def test_nobody_is_put_where_the_one_that_is_there_would_make_no_step_any_more() -> None:
    """It is slow there, so that little is lost, and the one that comes loses nothing."""
    host = Sharer(1, JobKind("light", 1), "o", (0.5,), movable=False, pool=0)
    guest = Sharer(2, JobKind("heavy", 1), "o", (1.0,), movable=False)
    assert gain(host, guest, MODELS, costs(light_heavy=math.inf, heavy_light=1.0)) < 0
    assert gain(host, guest, MODELS, costs(light_heavy=100.0, heavy_light=1.0)) > GAIN


def test_when_the_host_ends_its_guest_stays_where_it_is_alone() -> None:
    made = planner()
    for job, app in ((1, LIGHT), (2, HEAVY), (3, HEAVY)):
        come(made, job, app)
    where = placed(made.act(0.0))
    host, guest = (1, 2) if 2 in where else (1, 3)
    made.ended(host)
    plan = made.act(7200.0)
    assert guest not in placed(plan) and not plan.moves
    left = ({2, 3} - {guest}).pop()
    assert left in placed(plan)  # it is the guest of the one that was a guest


def test_when_the_guest_ends_its_host_stays_and_another_joins() -> None:
    made = planner()
    come(made, 1, LIGHT)
    come(made, 2, HEAVY)
    made.act(0.0)
    made.ended(2)
    assert made.act(10.0).moves == ()
    come(made, 4, HEAVY)
    assert list(placed(made.act(20.0))) == [4]


def test_a_guest_gets_a_place_of_its_own_when_nobody_waits_for_that() -> None:
    made = planner(cluster="fast:1x2")
    for job in (1, 2, 3):
        come(made, job, LIGHT)
    where = placed(made.act(0.0))
    assert len(where) == 3
    made.ended(1)
    plan = made.act(7200.0)
    held = {job: here.held for job, here in made.moves._here.items()}  # type: ignore[union-attr]
    assert sorted(held.values()) == [(0,), (1,)]
    assert len(plan.moves) <= 1


def test_who_would_run_badly_alone_shares_good_gpus_instead() -> None:
    made = planner(cluster="fast:1x1+slow:1x1")
    come(made, 1, LIGHT)
    come(made, 2, LIGHT)
    plan = made.act(0.0)
    assert len(placed(plan)) == 2
    assert len(set(placed(plan).values())) == 1  # on the slow one it would do a tenth


@pytest.mark.parametrize("seed", range(3))
def test_a_couple_of_which_one_may_not_be_moved_stays_whoever_comes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    made = planner(movable=False, cluster="fast:1x2+slow:1x2")
    for job in range(6):
        come(made, job, (LIGHT, HEAVY)[int(draw.integers(2))])
    now, here = 0.0, set(range(6))
    ran: dict[int, object] = {}
    for job in range(6, 30):
        plan = made.act(now)
        assert not plan.moves
        for start in plan.starts:
            assert start.job not in ran
            ran[start.job] = start.placement
        now += 600.0
        if ran.keys() & here:
            gone = sorted(ran.keys() & here)[int(draw.integers(len(ran.keys() & here)))]
            here.discard(gone)
            made.ended(gone)
        come(made, job, (LIGHT, HEAVY)[int(draw.integers(2))])
        here.add(job)


@pytest.mark.parametrize("seed", range(8))
def test_no_other_pairs_bring_more(seed: int) -> None:
    draw = np.random.default_rng(seed)
    kinds = [JobKind(f"k{i}", 1) for i in range(4)]
    told = {(a, b): float(draw.uniform(1.0, 3.0)) for a in kinds for b in kinds}

    known = PairBook(Sharing({Sharers(a, b, m): told[a, b] for a in kinds for b in kinds for m in MODELS}), MODELS)

    def sharer(job: int, pool: int = -1) -> Sharer:
        kind = int(draw.integers(4))
        rates = ((1.0, 0.5), (1.0, 0.9), (0.4, 1.0), (1.0, 1.0))[kind]
        return Sharer(job, kinds[kind], "uv"[int(draw.integers(2))], rates, pool=pool)

    hosts = [sharer(i, int(draw.integers(2))) for i in range(5)]
    guests = [sharer(10 + i) for i in range(5)]
    found = paired(hosts, guests, MODELS, known)
    assert len(set(found.values())) == len(found)
    by = {one.job: one for one in (*hosts, *guests)}

    def worth(guest: Sharer, host: Sharer) -> float:
        value = gain(host, guest, MODELS, known)
        return value if value >= GAIN else 0.0

    best = max(sum(map(worth, guests, some)) for some in permutations(hosts))
    assert sum(worth(by[g], by[h]) for g, h in found.items()) == pytest.approx(best)


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


def test_what_nobody_measured_is_estimated_better_than_by_the_mean_and_what_is_told_stands() -> None:
    truth = neighbours(np.random.default_rng(2), 20)
    told = truth.told_of(0.4, 1)
    assert 0.3 < len(told.beside) / len(truth.beside) < 0.5
    assert all(Sharers(p.other, p.one, p.model) in told.beside for p in told.beside)
    book = PairBook(told, MODELS)
    assert all(book.factor(*pair) == factor for pair, factor in told.beside.items())
    unknown = [pair for pair in truth.beside if pair not in told.beside]
    guessed = {pair: book.factor(*pair) for pair in unknown if book.factor(*pair) < math.inf}
    both = [pair for pair in guessed if truth.beside[pair] < math.inf]
    assert len(both) > 0.5 * len(unknown)
    middle = np.mean([1 / factor for factor in told.beside.values() if factor < math.inf])
    off = np.mean([(1 / guessed[p] - 1 / truth.beside[p]) ** 2 for p in both])
    assert off < 0.5 * np.mean([(middle - 1 / truth.beside[p]) ** 2 for p in both])
    assert not any(book.sure(*pair) for pair in unknown)


def test_of_an_application_that_nobody_has_seen_beside_others_nothing_is_estimated() -> None:
    truth = neighbours(np.random.default_rng(2), 10)
    new = JobKind("k03", 1)
    told = Sharing({p: factor for p, factor in truth.beside.items() if new not in p[:2]})
    book = PairBook(told, MODELS)
    assert book.factor(new, JobKind("k01", 1), "fast") == math.inf
    for i in range(LEAST):
        other = JobKind(f"k{i:02}", 1)
        book.saw(Sharers(new, other, "fast"), 1.2)
        assert book.factor(new, other, "fast") == 1.2


def test_an_observation_does_not_change_what_is_told() -> None:
    pair = Sharers(JobKind("light", 1), JobKind("heavy", 1), "fast")
    book = PairBook(CHEAP, MODELS)
    book.saw(pair, 50.0)
    assert book.factor(*pair) == 1.1


def test_a_full_table_is_its_own_completion() -> None:
    table = np.random.default_rng(1).random((6, 12))
    assert (completed(table, np.ones_like(table, dtype=np.bool_)) == table).all()
    assert not completed(table, np.zeros_like(table, dtype=np.bool_)).any()


def test_a_pair_that_was_only_estimated_is_watched_and_parted_when_it_is_worse_than_nobody() -> None:
    """Truth: together they stand still; what is told of each beside a third lets hope."""
    apps = {name: App(name, "A", {"fast": 1.0}) for name in ("a", "b", "c", "d", "e")}
    kinds = {name: JobKind(name, 1) for name in apps}
    truth = Sharing({Sharers(x, y, "fast"): 1.1 for x in kinds.values() for y in kinds.values()})
    bad = {Sharers(kinds["a"], kinds["b"], "fast"): math.inf, Sharers(kinds["b"], kinds["a"], "fast"): math.inf}
    told = Sharing({pair: factor for pair, factor in truth.beside.items() if pair not in bad})
    one = parse_cluster("fast:1x1")
    rules, known = ClusterRules(), neutral_scores(one)
    load = workload(Work(i, 0.0, 1, 4000.0, apps[name], shares=True) for i, name in enumerate("ab"))
    spec = PolicySpec(policy="pal", order="fifo", moving="pools")
    found = {}
    for movable in (True, False):
        scheduler = scheduler_for(spec, Setting(one, 1.0, rules, movable), known, 0, told)
        found[movable] = Engine(one, known, load, scheduler, rules, sharing=Sharing({**truth.beside, **bad})).run()
    assert 0 < found[True].shared_gpu_seconds <= 3 * 600.0
    assert found[True].end_s.max() < 8000 + 3 * 600.0
    assert found[False].shared_gpu_seconds == 0  # who can't be parted again shares only where it was measured


def test_in_the_simulator_no_gpu_has_three_and_who_did_not_say_so_has_his_alone() -> None:
    load = _load(60)
    rules = ClusterRules(restart_cost_s=60.0)
    setting = Setting(parse_cluster("fast:3x1+slow:3x1"), 1.0, rules, True)
    ran = {}
    for share in (0.0, 0.7):
        shared = load.sharing(share, 1)
        known = neutral_scores(setting.cluster)
        scheduler = scheduler_for(PolicySpec(policy="pal", order="las"), setting, known, 0, CHEAP)
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


def _load(jobs: int) -> Workload:
    draw = np.random.default_rng(5)
    return workload(
        Work(i, 300.0 * i, 1, float(draw.uniform(600, 6000)), (LIGHT, HEAVY)[int(draw.integers(2))])
        for i in range(jobs)
    )
