"""Who runs and in which pool: against plain searches, with jobs that may not be moved, and what prices say."""

import itertools
import time

import numpy as np
import pytest

from pal_slurm.model import App
from pal_slurm.policy.pools import where
from pal_slurm.policy.pools.claims import PoolClaim, relative_rates, rest_s
from pal_slurm.policy.pools.pricing import Chooser, Market, shadow_prices
from pal_slurm.policy.pools.who import choose, level

NOW = 1e6


def assign(claims: list[PoolClaim], gpus: list[int], cost_s: float, most_s: float = 1.0) -> list[int]:
    return where.assign(claims, gpus, NOW, cost_s, most_s=most_s)


def claim(
    job: int, rates: tuple[float, ...], gpus: int = 1, pool: int = -1, *, movable: bool = True, ran_s: float = 0
) -> PoolClaim:
    return PoolClaim(job, gpus, rates, movable, pool, NOW - ran_s)


def drawn(seed: int, n: int, sizes: tuple[int, ...] = (1,)) -> list[PoolClaim]:
    draw = np.random.default_rng(seed)
    claims = []
    for job in range(n):
        rates = draw.uniform(0.1, 1, 3)
        rates[draw.random(3) < 0.15] = 0.0
        rates[draw.integers(3)] = 1.0
        pool = int(draw.choice(np.flatnonzero(rates))) if draw.random() < 0.4 else -1
        claims.append(
            claim(job, tuple(rates.tolist()), int(draw.choice(sizes)), pool, movable=draw.random() < 0.7,
                  ran_s=draw.uniform(0, 9000))
        )  # fmt: skip
    return claims


def worth_of(claims: list[PoolClaim], pools: list[int], cost_s: float) -> float:
    table = where.values(where.by_field(claims), NOW, cost_s, np.zeros(3))
    return sum(float(table[i, p]) * c.gpus for i, (c, p) in enumerate(zip(claims, pools, strict=True)) if p >= 0)


def best_there_is(claims: list[PoolClaim], gpus: list[int], cost_s: float) -> float:
    best = 0.0
    for pools in itertools.product((-1, 0, 1, 2), repeat=len(claims)):
        used = [sum(c.gpus for c, p in zip(claims, pools, strict=True) if p == j) for j in range(3)]
        if all(u <= g for u, g in zip(used, gpus, strict=True)):
            best = max(best, worth_of(claims, list(pools), cost_s))
    return best


class TestWhere:
    @pytest.mark.parametrize("seed", range(40))
    def test_jobs_of_one_gpu_are_where_no_plan_is_better(self, seed: int) -> None:
        claims, gpus = drawn(seed, 6), [2, 2, 1]
        held = [sum(c.pool == j for c in claims) for j in range(3)]
        gpus = [max(g, h) for g, h in zip(gpus, held, strict=True)]
        found = assign(claims, gpus, 60.0)
        assert worth_of(claims, found, 60.0) == pytest.approx(best_there_is(claims, gpus, 60.0), abs=1e-6)

    @pytest.mark.parametrize("seed", range(12))
    def test_jobs_of_several_sizes_too(self, seed: int) -> None:
        claims = [c for c in drawn(seed, 6, (1, 2, 4)) if c.pool < 0]
        found = assign(claims, [4, 3, 4], 60.0)
        best = best_there_is(claims, [4, 3, 4], 60.0)
        assert best * (1 - 2e-3) <= worth_of(claims, found, 60.0) <= best + 1e-6

    def test_who_may_not_be_moved_stays_and_the_others_go_round_it(self) -> None:
        fixed = claim(1, (0.1, 1.0), pool=0, movable=False)
        other = claim(2, (1.0, 0.2))
        assert assign([fixed, other], [1, 1], 60.0) == [0, 1]
        assert assign([claim(1, (0.1, 1.0), pool=0, ran_s=7200), other], [1, 1], 60.0) == [1, 0]

    def test_a_move_that_costs_more_than_it_brings_is_not_made(self) -> None:
        runs = claim(1, (0.95, 1.0), pool=0, ran_s=1800)
        assert assign([runs], [1, 1], 60.0) == [1]  # 60 s of 1800 are less than 5 %
        assert assign([runs], [1, 1], 120.0) == [0]
        assert assign([runs], [1, 1], 1e9) == [0]

    def test_a_solver_without_time_leaves_everybody_where_he_is(self) -> None:
        draw = np.random.default_rng(0)
        claims = [
            claim(i, (*draw.uniform(0.2, 0.9, 2).tolist(), 1.0), int(size), pool=i % 2, ran_s=7200)
            for i, size in enumerate(draw.choice([1, 2, 3, 5, 7], 60))
        ]
        used = [sum(c.gpus for c in claims if c.pool == j) for j in (0, 1)]
        assert assign(claims, [used[0], used[1], used[0]], 60.0, most_s=0.0) == [c.pool for c in claims]

    def test_of_two_that_gain_alike_he_who_has_run_for_long_has_the_better_gpus(self) -> None:
        """Whose end is near brings a move about, where somebody would follow him."""
        two = [claim(1, (1.0, 0.5), ran_s=7200, pool=1), claim(2, (1.0, 0.5), ran_s=36_000, pool=1)]
        for pair in (two, two[::-1]):
            found = where.assign(pair, [1, 2], NOW, 1.0, prices=[1.5, 0.5])
            assert {c.job: pool for c, pool in zip(pair, found, strict=True)} == {1: 1, 2: 0}

    def test_an_end_moves_one_for_each_cheaper_pool_that_is_full(self) -> None:
        dear_last = [0.3, 0.7, 2.0]
        said = {asked: where.followed([4, 4, 4], asked, dear_last).tolist() for asked in (3, 4, 8, 11, 12)}
        assert said == {3: [0, 0, 0], 4: [0, 0, 1], 8: [0, 1, 2], 11: [0, 1, 2], 12: [0, 0, 0]}
        assert where.followed([4, 4], 6, [1.0, 1.0]).tolist() == [0, 0]  # nobody would rather be in the other

    def test_nobody_goes_where_he_cannot_run(self) -> None:
        assert assign([claim(1, (0.0, 1.0)), claim(2, (0.0, 1.0))], [5, 1], 60.0).count(-1) == 1


class TestWho:
    def test_the_order_is_walked_while_gpus_of_the_pools_that_a_job_may_have_suffice(self) -> None:
        only_first = [claim(i, (1.0, 0.0)) for i in range(3)]
        anywhere = claim(9, (1.0, 0.5))
        assert [c.job for c in choose([*only_first, anywhere], [2, 1], None)] == [0, 1, 9]

    def test_who_runs_and_may_not_be_moved_runs_on_however_far_back_it_is(self) -> None:
        ahead = [claim(i, (1.0, 1.0)) for i in range(3)]
        fixed = claim(9, (1.0, 1.0), pool=0, movable=False)
        assert {c.job for c in choose([*ahead, fixed], [1, 1], None)} == {9, 0}

    def test_levels_of_service_are_steps_of_four(self) -> None:
        assert [level(s) for s in (0, 7199, 7200, 28_799, 28_800)] == [0, 0, 1, 1, 2]


class TestPrices:
    RATES = np.array([[1.0, 0.2], [1.0, 0.9]])

    def test_shadow_prices_let_each_kind_of_work_go_where_it_is_cheap(self) -> None:
        price = shadow_prices(self.RATES, np.array([1.0, 1.0]), np.array([10.0, 10.0]))
        assert price[0] > price[1] > 0
        # the kind that the second pool hardly slows takes that, the other one the first
        assert price[0] / 1.0 < price[1] / 0.2 and price[1] / 0.9 <= price[0] / 1.0 + 1e-9
        assert price.mean() == pytest.approx(1.0)

    def test_prices_that_take_the_solver_too_long_are_neutral_and_the_cycle_goes_on(self) -> None:
        rates = np.random.default_rng(1).random((5000, 40))
        begun = time.process_time()
        assert shadow_prices(rates, np.ones(5000), np.full(40, 8.0)).tolist() == [1.0] * 40
        assert time.process_time() - begun < 6.0

    def test_a_bad_match_is_taken_by_nobody_who_waits_in_a_crowd(self) -> None:
        market = Market([10, 10])
        for _ in range(50):
            market.arrived((1.0, 0.2), 1)
            market.arrived((1.0, 0.9), 1)
        crowd = Chooser(market, waiting=40)
        assert crowd.takes((1.0, 0.2), 1, [0, 3])[0] == -1
        assert crowd.takes((1.0, 0.9), 1, [0, 3])[0] == 1

    def test_where_nobody_waits_a_job_takes_what_is_fastest_for_it(self) -> None:
        market = Market([10, 10])
        for _ in range(50):
            market.arrived((1.0, 0.2), 1)
            market.arrived((1.0, 0.9), 1)
        assert Chooser(market, waiting=0).takes((1.0, 0.9), 1, [1, 1])[0] == 0

    def test_a_slow_pool_is_taken_when_the_line_for_the_fast_one_is_longer_than_the_loss(self) -> None:
        market = Market([1, 10])
        market.arrived((1.0, 0.8), 1)
        chooser = Chooser(market, waiting=0)
        assert chooser.takes((1.0, 0.8), 1, [0, 1])[0] == 1

    def test_what_is_taken_follows_what_jobs_turned_out_to_be(self) -> None:
        market = Market([4, 4])
        before = market.expected_s
        for _ in range(200):
            market.ended(60.0)
        assert market.expected_s < before / 5


class TestRates:
    def test_rates_are_relative_to_the_best_model(self) -> None:
        assert relative_rates(App("x", "A", {"a": 2.0, "b": 1.0}), ("a", "b")) == (0.5, 1.0)

    def test_who_has_no_base_for_a_model_does_not_run_there(self) -> None:
        assert relative_rates(App("x", "A", {"a": 2.0}), ("a", "b")) == (1.0, 0.0)

    def test_where_nothing_is_known_all_models_count_alike(self) -> None:
        assert relative_rates(App("x", "A"), ("a", "b")) == (1.0, 1.0)
        assert relative_rates(App("x", "A", {"other": 3.0}), ("a", "b")) == (1.0, 1.0)

    def test_the_expected_rest_is_what_it_ran_so_far_within_its_limit(self) -> None:
        began, ends = (
            np.array([NOW - 9000, np.inf, NOW - 9000, NOW - 50]),
            np.array([np.inf, np.inf, NOW + 100, NOW - 1]),
        )
        assert rest_s(began, ends, NOW).tolist() == [9000, 1800, 100, 0]
