"""Gavel's published loop on its own traces, against its own simulator's figures; and ours beside it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.published.policies import PublishedSpec, scheduler_for
from pal_slurm.model import Sharing, neutral_scores
from pal_slurm.model.likely import likely
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import Setting
from pal_slurm.sim.traces import Options, read_trace
from pal_slurm.sim.traces.gavel import read_pairs
from pal_slurm.sim.traces.gavel_drawn import going_on
from pal_slurm.sim.workload import Workload

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "gavel"
CLUSTER = parse_cluster("v100:36x1+p100:36x1+k80:36x1")
SINGLE = "continuous_single_rate{}_seed0"

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"no {DATA}")


def trace(name: str) -> Workload:
    options = Options(limit_factor=2.0, throughputs=DATA / "simulation_throughputs.json")
    return read_trace(DATA / "traces" / f"{name}.tsv", "gavel", options)


def ran(load: Workload, policy: str, cost_s: float = 0.0, order: str = "las", *, moves: bool = True) -> TraceOutcome:
    rules = ClusterRules(restart_cost_s=cost_s, first_start_cost=True)
    setting = Setting(CLUSTER, 1.0, rules, moves)
    known, pairs = neutral_scores(CLUSTER), read_pairs(DATA / "simulation_throughputs.json")
    scheduler = scheduler_for(PublishedSpec(policy=policy, order=order), setting, known, 0, pairs)
    return Engine(CLUSTER, known, load, scheduler, rules, sharing=pairs).run()


def hours(outcome: TraceOutcome) -> float:
    return outcome.avg_jct_s / 3600


def test_a_hundred_jobs_at_once() -> None:
    """Gavel's simulator: makespan 171.1 h, average 17.6 h."""
    found = ran(trace("static_multi_100_seed0"), "artifact/gavel-las")
    assert found.makespan_s / 3600 == pytest.approx(171.1, rel=0.04)
    assert hours(found) == pytest.approx(17.6, rel=0.04)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "policy", "published", "within"),
    [
        ("single_rate4.0", "artifact/gavel-las", 17.07, 0.02),
        ("single_rate4.0", "artifact/gavel-las-agnostic", 23.75, 0.06),
        ("single_rate5.6", "artifact/gavel-las", 29.42, 0.02),
        ("single_rate5.6", "artifact/gavel-las-agnostic", 98.26, 0.06),
        ("multi_rate2.6", "artifact/gavel-las", 34.30, 0.04),
        ("multi_rate2.6", "artifact/gavel-las-agnostic", 70.28, 0.06),
    ],
)
def test_a_thousand_jobs_while_others_come(name: str, policy: str, published: float, within: float) -> None:
    load = going_on(trace(f"continuous_{name}_seed0").counting(range(4000, 5000)))
    assert hours(ran(load, policy)) == pytest.approx(published, rel=within)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "published"), [("single_rate4.0", 16.96), ("single_rate5.6", 19.64)])
def test_a_thousand_jobs_that_may_all_share_while_others_come(name: str, published: float) -> None:
    """Against the averages of the authors' notebook of the same seed."""
    load = going_on(trace(f"continuous_{name}_seed0").counting(range(4000, 5000))).sharing(1.0, 0)
    assert hours(ran(load, "artifact/gavel-las-packed")) == pytest.approx(published, rel=0.02)


@pytest.mark.every(3)
def test_two_on_a_gpu_end_sooner_where_gpus_are_short_and_nobody_shares_who_did_not_say_so() -> None:
    load = some("5.6", jobs=200)
    assert ran(load, "artifact/gavel-las-packed").figures()["shared"] == 0.0
    fewer = parse_cluster("v100:8x1+p100:8x1+k80:8x1")
    rules = ClusterRules()
    found = {}
    for share in (0.0, 1.0):
        scheduler = scheduler_for(
            PublishedSpec(policy="artifact/gavel-las-packed"), Setting(fewer, 1.0, rules, True), neutral_scores(fewer),
            0, pairs := read_pairs(DATA / "simulation_throughputs.json"),
        )  # fmt: skip
        shared = load.sharing(share, 0)
        found[share] = Engine(fewer, neutral_scores(fewer), shared, scheduler, rules, sharing=pairs).run()
    assert found[1.0].figures()["shared"] > 0.2
    assert hours(found[1.0]) < 0.9 * hours(found[0.0])


def test_a_fifth_of_the_pairs_tells_most_of_the_others() -> None:
    """Of those that do not fit into memory together one in four at most is taken for one that does."""
    table = read_pairs(DATA / "simulation_throughputs.json")
    truth = {pair: factor for pair, factor in table.beside.items() if pair.one.gpus == 1}
    told = Sharing(truth).told_of(0.2, 0)
    found = likely(told.beside, ("v100", "p100", "k80"))
    unknown = {pair: factor for pair, factor in truth.items() if pair not in told.beside}
    small = {pair for pair, factor in unknown.items() if factor == math.inf}
    taken = {pair for pair in small if found.get(pair, math.inf) < math.inf}
    fit = [pair for pair in unknown if pair not in small and found.get(pair, math.inf) < math.inf]
    print(
        f"{len(taken)} of {len(small)} that do not fit are taken for some that do, {len(fit)} of "
        f"{len(unknown) - len(small)} that do are estimated"
    )
    assert len(taken) < len(small) / 4
    assert len(fit) > 0.9 * (len(unknown) - len(small))
    middle = np.mean([1 / factor for factor in told.beside.values() if factor < math.inf])
    off, blind = (np.mean([(1 / truth[p] - guess) ** 2 for p in fit for guess in [of(p)]]) for of in (
        lambda p: 1 / found[p], lambda p: middle))  # fmt: skip
    print(f"off by {math.sqrt(off):.3f} of the speed alone, the mean by {math.sqrt(blind):.3f}")
    assert off < 0.75 * blind


def some(rate: str, first: int = 0, jobs: int = 600) -> Workload:
    load = trace(SINGLE.format(rate))
    return replace(load, works=load.works[: first + jobs + 200], tracked=range(first, first + jobs))


def test_jobs_that_may_not_be_moved_start_once_and_wait_for_a_match_no_longer_than_it_pays() -> None:
    load = some("5.6")
    moved, stays = (ran(load, "pal", 60.0, order="", moves=moves) for moves in (True, False))
    assert stays.moves == stays.restarts == 0
    assert hours(stays) < 1.25 * hours(moved)


def test_only_jobs_that_said_so_are_moved() -> None:
    load = some("5.6", jobs=300).movable(0.5, 3)
    rules = ClusterRules(restart_cost_s=60.0, first_start_cost=True)
    known = neutral_scores(CLUSTER)
    scheduler = scheduler_for(PublishedSpec(policy="pal"), Setting(CLUSTER, 1.0, rules, True), known, 0)
    engine = Engine(CLUSTER, known, load, scheduler, rules)
    starts: dict[int, int] = {}
    begin = engine.start
    engine.start = lambda run, gpus: (starts.update({run.work.id: starts.get(run.work.id, 0) + 1}), begin(run, gpus))[1]  # type: ignore[method-assign]
    engine.run()
    fixed = [work.id for work in load.works if not work.requeue]
    assert max(starts[job] for job in fixed if job in starts) == 1
    assert max(starts.values()) > 1


def test_where_shares_are_made_at_each_change_newcomers_run_at_the_next_round() -> None:
    """As published they wait until the last shares are 1920 s old, and their GPUs stay idle."""
    load = some("4.0", jobs=60)
    waits = {}
    for lasting in (0.0, None):
        spec = PublishedSpec(policy="artifact/gavel-las", shares_last_s=lasting)
        known, rules = neutral_scores(CLUSTER), ClusterRules()
        done = Engine(
            CLUSTER, known, load, scheduler_for(spec, Setting(CLUSTER, 1.0, rules, True), known, 0), rules
        ).run()
        waits[lasting] = (done.start_s - done.submit_s)[10:]
    assert waits[0.0].max() <= 360.0 < waits[None].max() <= 1920.0 + 360.0
    with pytest.raises(ValueError, match="shares_last_s: seconds"):
        PublishedSpec(policy="pal", shares_last_s=0.0)
