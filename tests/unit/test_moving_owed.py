"""`gavel-owed/OBJECTIVE`: what a job is owed of each pool is what it gets, over hours; and bad cases."""

import math

import numpy as np
import pytest

from benchmarks.published.admission import ActiveJob
from benchmarks.published.gavel_owed import MIN_TURN_S, MOST_TURNS, PLAIN, OwedAssignment, ServiceDeficit, Terms
from benchmarks.published.policies import Published, PublishedSpec, scheduler_for
from pal_slurm.errors import ConfigError
from pal_slurm.model import App, Cluster, FloatArray, neutral_scores
from pal_slurm.policy import Progress
from pal_slurm.policy.entitlement.division import Division, Shares
from pal_slurm.policy.entitlement.objectives import OBJECTIVES
from pal_slurm.policy.entitlement.water_filling import Entities
from pal_slurm.policy.solving import Lack, NoAnswer
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import Setting
from pal_slurm.sim.workload import Work, workload

CLUSTER = parse_cluster("fast:1x2+slow:1x2")
FUSSY = App("fussy", "A", {"fast": 1.0, "slow": 10.0})
EASY = App("easy", "A", {"fast": 1.0, "slow": 1.1})


def here(job: int, app: App, gpus: int = 1, user: str = "u", *, movable: bool = True) -> ActiveJob:
    work = Work(job, 0.0, gpus, 1e6, app, user=user)
    return ActiveJob(work.as_job(), app, gpus, lambda now: Progress(rest_steps=1e6), movable)


def owed_assignment(
    *all_here: ActiveJob, objective: str = "max-min", terms: Terms = PLAIN, cluster: Cluster = CLUSTER
) -> OwedAssignment:
    made = OwedAssignment(OBJECTIVES[objective], terms, cluster, neutral_scores(cluster), 60.0)
    for one in all_here:
        made.arrive(one)
    return made


def had(made: OwedAssignment, all_here: tuple[ActiveJob, ...], hours: float) -> dict[int, FloatArray]:
    """Seconds of each pool that each got, when it was asked as often as it wants."""
    now = 0.0
    while now < hours * 3600:
        where = made.act(now)
        for one in all_here:
            one.held = where.get(one.job.id, ())
        now = min(made.wake_at, hours * 3600)
    made.act(now)
    return {one.job.id: made.deficit.entitled(one.job.id)[1] for one in all_here}


def test_over_days_each_gets_what_it_is_owed() -> None:
    jobs = tuple(here(i, FUSSY if i < 3 else EASY) for i in range(6))
    made = owed_assignment(*jobs)
    got = had(made, jobs, 240)
    for one in jobs:
        owed, received = made.deficit.entitled(one.job.id)
        assert received == pytest.approx(owed, abs=(MOST_TURNS + 1) * MIN_TURN_S)
    assert got[0][0] > 2 * got[5][0]  # who minds has the fast ones


def test_a_weight_of_two_gets_twice_as_much() -> None:
    jobs = tuple(here(i, EASY, user="ml" if i < 4 else "bio") for i in range(8))
    got = had(owed_assignment(*jobs, terms=Terms({"ml": 2.0}, {})), jobs, 480)
    ml, bio = (sum(got[i].sum() for i in group) for group in (range(4), range(4, 8)))
    assert ml / bio == pytest.approx(2.0, rel=0.15)


def test_entities_share_by_their_weight_and_not_by_how_many_jobs_they_have() -> None:
    jobs = tuple(here(i, EASY, user="many" if i < 9 else f"one{i}") for i in range(11))
    got = had(owed_assignment(*jobs, objective="hierarchical"), jobs, 480)
    assert got[10].sum() == pytest.approx(4.5 * got[0].sum(), rel=0.1)


def test_gpus_that_nobody_is_owed_do_not_stay_idle() -> None:
    jobs = tuple(here(i, EASY) for i in range(4))
    where = owed_assignment(*jobs, objective="isolated").act(0.0)
    assert len(where) == 4


def test_who_may_not_be_moved_stays_whatever_others_are_owed() -> None:
    bound = tuple(here(i, EASY, movable=False) for i in range(4))
    made = owed_assignment(*bound)
    first = made.act(0.0)
    for one in bound:
        one.held = first[one.job.id]
    made.arrive(here(9, FUSSY))
    for hour in range(1, 200):
        assert {job: gpus for job, gpus in made.act(3600.0 * hour).items() if job != 9} == first


def test_a_solver_that_gives_no_answer_leaves_the_last_shares_and_is_counted() -> None:
    asked = []

    def late(division: Division, owners: Entities) -> Shares:
        asked.append(division.n_jobs)
        raise NoAnswer(Lack.TOO_LATE)

    made = OwedAssignment(late, PLAIN, CLUSTER, neutral_scores(CLUSTER), 60.0)
    for i in range(6):
        made.arrive(here(i, EASY))
    assert len(made.act(0.0)) == 4  # they run all the same
    assert asked == [6] and sum(made.told.values()) == 1 and "too_late" in next(iter(made.told))


def test_what_can_not_be_had_is_told() -> None:
    jobs = tuple(
        ActiveJob(Work(i, 0.0, 1, 1e6, EASY, limit_s=1e6).as_job(), EASY, 1, lambda now: Progress(rest_steps=1e6))
        for i in range(8)
    )
    made = owed_assignment(*jobs, objective="cost-slo")
    made.act(0.0)
    assert any("in time" in note for note in made.told)


def test_debts_are_not_remembered_for_ever_nor_favours() -> None:
    deficit = ServiceDeficit(2, 100.0)
    for job in range(70):
        deficit.add(job)
    deficit.set_shares(range(70), np.tile([1.0, 0.0], (70, 1)))
    deficit.advance(10_000.0, {3: 1})
    assert deficit.deficits([3]).tolist() == [[400.0, -400.0]] and deficit.deficits([69]).tolist() == [[400.0, 0.0]]
    deficit.remove(3)
    deficit.add(71)
    assert deficit.deficits([71]).tolist() == [[0.0, 0.0]]


def ran(spec: PublishedSpec, jobs: int = 12) -> TraceOutcome:
    works = (Work(i, 600.0 * i, 1 + i % 2, 8e3, FUSSY if i % 3 else EASY, limit_s=1e6) for i in range(jobs))
    rules = ClusterRules(restart_cost_s=60.0, first_start_cost=True)
    known = neutral_scores(CLUSTER)
    scheduler = scheduler_for(spec, Setting(CLUSTER, 1.0, rules, True), known, 0)
    return Engine(CLUSTER, known, workload(works), scheduler, rules).run()


@pytest.mark.every(3)
@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_every_objective_runs_a_trace_by_its_name(name: str) -> None:
    assert f"gavel-owed/{name}" in Published().names
    done = ran(PublishedSpec(policy=f"gavel-owed/{name}"))
    assert done.job_ids.size == 12 and math.isfinite(done.avg_jct_s) and done.starts_per_job < 6


def test_knowing_the_rates_is_better_than_not() -> None:
    knows, blind = (ran(PublishedSpec(policy=f"gavel-owed/max-min{end}")) for end in ("", "-agnostic"))
    assert knows.avg_jct_s < 0.95 * blind.avg_jct_s


def test_prices_of_models_that_are_not_there_and_prices_for_others_are_refused() -> None:
    with pytest.raises(ConfigError, match="no GPU model 'h100'"):
        ran(PublishedSpec(policy="gavel-owed/cost", prices={"h100": 3.0}))
    with pytest.raises(ConfigError, match="weights and prices are for gavel"):
        ran(PublishedSpec(policy="pal", weights={"ml": 2.0}))
    with pytest.raises(ValueError, match=r"prices\.fast"):
        PublishedSpec(policy="gavel-owed/cost", prices={"fast": 0.0})
