"""What a GPU of each pool costs those who wait, and how fast an application is on each."""

import time

import numpy as np
import pytest

from pal_slurm.model import App
from pal_slurm.policy.pools.claims import relative_rates
from pal_slurm.policy.pools.pricing import shadow_prices


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


class TestRates:
    def test_rates_are_relative_to_the_best_model(self) -> None:
        assert relative_rates(App("x", "A", {"a": 2.0, "b": 1.0}), ("a", "b")) == (0.5, 1.0)

    def test_who_has_no_base_for_a_model_does_not_run_there(self) -> None:
        assert relative_rates(App("x", "A", {"a": 2.0}), ("a", "b")) == (1.0, 0.0)

    def test_where_nothing_is_known_all_models_count_alike(self) -> None:
        assert relative_rates(App("x", "A"), ("a", "b")) == (1.0, 1.0)
        assert relative_rates(App("x", "A", {"other": 3.0}), ("a", "b")) == (1.0, 1.0)
