"""What jobs are owed: known optima, by value and rates; what can't be; what nobody should believe."""

import math

import numpy as np
import pytest

from pal_slurm.errors import BadInput
from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.cost import cost, cost_slo
from pal_slurm.policy.entitlement.division import Division, Pair, Together, classes
from pal_slurm.policy.entitlement.fifo import fifo
from pal_slurm.policy.entitlement.finish_time import finish_time
from pal_slurm.policy.entitlement.isolated import isolated
from pal_slurm.policy.entitlement.makespan import makespan
from pal_slurm.policy.entitlement.max_min import max_min
from pal_slurm.policy.entitlement.max_sum import max_sum
from pal_slurm.policy.entitlement.proportional import proportional
from pal_slurm.policy.entitlement.strategy_proof import best_product, strategy_proof
from pal_slurm.policy.entitlement.water_filling import Entities, hierarchical, water_filling
from pal_slurm.policy.solving import INFINITY, Columns, Lack, LinearProgram, NoAnswer, packed

# two jobs on V100, P100 and K80
TWO = [[2.0, 1.0, 0.5], [3.0, 2.0, 1.0]]
close = pytest.approx


def division(rates: object, gpus: object, **more: object) -> Division:
    told = {name: np.array(value, dtype=float) for name, value in more.items() if name not in ("pairs", "entity")}
    rest = {name: value for name, value in more.items() if name in ("pairs", "entity")}
    return Division(np.array(rates, dtype=float), np.array(gpus, dtype=float), **told, **rest)  # type: ignore[arg-type]


def feasible(shares: FloatArray, asked: Division) -> bool:
    time = shares.sum(axis=1).max() <= 1 + 1e-7
    return bool(time and ((shares * asked.sizes[:, None]).sum(axis=0) <= asked.gpus + 1e-7).all())


class TestMaxMin:
    def test_the_example_of_gavel_s_section_4_1(self) -> None:
        asked = division([[40, 10], [12, 4], [100, 50]], [1, 1])
        found = max_min(asked)
        assert found.value == close(8 / 11)
        assert min(found.rate / asked.equal) == close(8 / 11)
        assert isolated(asked).value == close(2 / 3)
        assert feasible(found.share, asked)

    @pytest.mark.parametrize(("gpus", "level"), [((1, 2, 3), 48 / 31), ((1, 1, 1), 24 / 19), ((4, 4, 4), 3 / 2)])
    def test_two_jobs_on_three_models(self, gpus: tuple[int, ...], level: float) -> None:
        assert max_min(division(TWO, gpus)).value == close(level)

    @pytest.mark.parametrize(("sizes", "least"), [((1, 1), 1), ((2, 1), 1), ((2, 2), 2), ((4, 1), 1)])
    @pytest.mark.parametrize("gpus", [(4, 4, 4), (4, 8, 6)])
    def test_who_knows_no_rates_divides_gpus(self, sizes: tuple[int, ...], least: float, gpus: tuple[int, ...]) -> None:
        assert max_min(division(TWO, gpus, sizes=sizes).alike()).value == close(least)

    def test_merging_equal_jobs_changes_no_level(self) -> None:
        draw = np.random.default_rng(3)
        kinds = draw.uniform(1, 10, (4, 3))
        which = draw.integers(0, 4, 40)
        merged = division(kinds[which], [5, 5, 5])
        apart = division(kinds[which] * (1 + 1e-9 * np.arange(40)[:, None]), [5, 5, 5])
        assert len(classes(merged.rates).first) == 4 and len(classes(apart.rates).first) == 40
        assert max_min(merged).value == close(max_min(apart).value, rel=1e-6)

    def test_weights_of_0_are_owed_nothing_and_hold_nobody_down(self) -> None:
        asked = division(TWO, [1, 0, 0], weights=[0, 1])
        assert max_min(asked).rate[1] == close(3.0)
        assert max_min(division(TWO, [1, 1, 1], weights=[0, 0])).value == 0.0

    def test_a_job_that_can_run_nowhere_holds_nobody_down(self) -> None:
        found = max_min(division([[0, 0, 0], TWO[0]], [1, 1, 1]))
        assert found.rate[0] == 0.0 and found.rate[1] == close(2.0)
        assert max_min(division([TWO[0]], [1, 1, 1], sizes=[2])).rate[0] == 0.0  # no pool has two

    def test_nobody_is_owed_a_pool_where_he_cannot_run(self) -> None:
        found = max_min(division([[2, 0], [3, 1]], [1, 1]))
        assert found.share[0, 1] == 0.0


class TestWaterFilling:
    def test_the_example_of_gavel_s_section_4_3_ends_with_a_gpu_for_everyone(self) -> None:
        asked = division(np.ones((4, 1)), [4], weights=[3, 1, 1, 1])
        assert max_min(asked).value == close(1 / 3)
        assert water_filling(asked).rate == close(np.ones(4))

    def test_the_second_level_rises_when_the_first_is_full(self) -> None:
        asked = division(TWO, [4, 4, 4])
        assert sorted(water_filling(asked).rate / asked.equal) == close([3 / 2, 12 / 7])

    def test_pairs_that_lose_nothing_share_the_fastest_gpu(self) -> None:
        pair = Pair(0, 1, np.array(TWO[0]), np.array(TWO[1]))
        asked = division(TWO, [1, 1, 1], pairs=(pair,))
        assert max_min(asked).value == close(3 / 2)
        found = water_filling(asked)
        assert sorted(found.rate / asked.equal) == close([3 / 2, 12 / 7])
        assert found.paired[0] == close([1, 0, 0], abs=1e-7)

    def test_entities_get_their_weights_and_fair_ones_divide_them(self) -> None:
        asked = division(np.ones((6, 1)), [3], entity=np.array([0, 0, 1, 1, 2, 2]))
        found = hierarchical(asked, Entities(np.array([1.0, 2.0, 3.0])))
        assert found.rate == close([0.25, 0.25, 0.5, 0.5, 0.75, 0.75])

    def test_a_fifo_entity_gives_all_to_its_first_until_that_can_have_no_more(self) -> None:
        asked = division(np.ones((6, 1)), [3], entity=np.array([0, 0, 1, 1, 2, 2]))
        found = hierarchical(asked, Entities(np.array([1.0, 2.0, 3.0]), ("fair", "fifo", "fifo")))
        # 3 GPUs as 1 : 2 : 3, but no job has more than one; what is left goes on to the next in each line
        assert found.rate == close([0.25, 0.25, 1.0, 0.0, 1.0, 0.5], abs=1e-6)

    def test_nine_gpus_and_eighteen_jobs_of_three_entities(self) -> None:
        draw = np.random.default_rng(0)
        rates = np.sort(draw.uniform(1, 10, (18, 3)), axis=1)[:, ::-1]
        asked = division(rates, [3, 3, 3], entity=np.repeat([0, 1, 2], 6))
        found = hierarchical(asked, Entities(np.array([1.0, 2.0, 3.0])))
        assert feasible(found.share, asked)
        one, two, three = (found.rate / asked.equal).reshape(3, 6).mean(axis=1)
        assert one < two < three
        assert found.value == close((found.rate / asked.equal).min() / (1 / 6), rel=1e-5)


class TestTimes:
    def test_finish_time_from_the_start_and_half_way(self) -> None:
        asked = division(TWO, [1, 2, 3], steps=[300, 500])
        assert finish_time(asked).value == close(31 / 48)
        so_far = np.array([100, 200]) / isolated(asked).rate
        later = division(TWO, [1, 2, 3], steps=[200, 300], isolated_s=so_far, age_s=[0, 0])
        assert finish_time(later).value == close(29 / 72)

    def test_finish_time_of_those_who_know_no_rates_is_1(self) -> None:
        assert finish_time(division(TWO, [1, 2, 3], steps=[300, 500]).alike()).value == close(1.0)

    def test_no_lower_finish_time_can_be_had(self) -> None:
        draw = np.random.default_rng(5)
        n = 30
        asked = division(
            draw.uniform(1, 10, (n, 3)), [3, 3, 3], steps=draw.uniform(1e3, 1e5, n), age_s=draw.uniform(0, 1e4, n),
            isolated_s=draw.uniform(1e4, 1e5, n),
        )  # fmt: skip
        found = finish_time(asked)
        assert feasible(found.share, asked)
        assert asked.steps is not None and asked.age_s is not None and asked.isolated_s is not None
        worst = (asked.age_s + asked.steps / found.rate) / (asked.isolated_s + asked.steps / isolated(asked).rate)
        assert worst.max() == close(found.value, rel=1e-5)
        # half of the rates more than any could have: the bound by one job alone is not what decides
        assert found.value > ((asked.age_s + asked.steps / asked.rates.max(axis=1)) / 1e9).max()

    @pytest.mark.parametrize("gpus", [(1, 1, 1), (1, 2, 3)])
    def test_makespan_is_exact(self, gpus: tuple[int, ...]) -> None:
        found = makespan(division(TWO, gpus, steps=[300, 500]))
        assert found.value == close(200.0)
        assert (np.array([300, 500]) / found.rate).max() == close(200.0)


class TestSums:
    PRICES = (3.1, 2.0, 0.8)

    def test_most_steps_and_most_steps_for_the_money(self) -> None:
        asked = division(TWO, [1, 1, 1], prices=self.PRICES)
        assert max_sum(asked).value == close(4.0)
        assert cost(asked).value == close(47 / 24.8)

    def test_a_deadline_is_kept(self) -> None:
        asked = division(TWO, [1, 1, 1], prices=self.PRICES, steps=[1, 0], left_s=[10, math.inf])
        found = cost_slo(asked)
        assert found.value == close(47 / 24.8) and found.rate[0] >= 0.1 - 1e-9 and not found.note
        tighter = division(TWO, [1, 1, 1], prices=self.PRICES, steps=[0, 250], left_s=[math.inf, 100])
        assert cost_slo(tighter).rate[1] == close(2.5) and cost_slo(tighter).value < 47 / 24.8

    @pytest.mark.parametrize("left_s", [-5.0, 0.0, 1.0])
    def test_a_job_that_is_late_or_will_be_keeps_its_claim(self, left_s: float) -> None:
        asked = division(TWO, [1, 1, 1], prices=self.PRICES, steps=[100, 0], left_s=[left_s, math.inf])
        assert cost_slo(asked).rate[0] == close(2.0)

    def test_deadlines_that_cannot_all_be_kept_get_the_same_part_and_that_is_said(self) -> None:
        asked = division(TWO, [1, 0, 0], prices=self.PRICES, steps=[100, 150], left_s=[50, 50])
        found = cost_slo(asked)
        assert found.rate == close([1.0, 1.5], rel=1e-6)
        assert "50%" in found.note

    def test_fifo_gives_the_first_what_is_best_for_it(self) -> None:
        found = fifo(division([[4, 1], [4, 2]], [1, 1]))
        assert found.rate == close([4, 2])
        assert found.value == close(2 * 1 + 1 * 0.5)

    def test_isolated_and_proportional_are_parts_of_everything(self) -> None:
        asked = division(TWO, [1, 2, 3])
        assert isolated(asked).share == close(np.tile([1 / 6, 1 / 3, 1 / 2], (2, 1)))
        assert proportional(asked).rate == close(asked.equal)


class TestStrategyProof:
    def test_nobody_gains_by_a_lie(self) -> None:
        honest = np.array([[4.0, 1.0], [3.0, 2.0]])
        truth = (strategy_proof(division(honest, [1, 1])).share * honest).sum(axis=1)
        for lie in ([4.0, 3.9], [8.0, 1.0], [1.0, 1.0], [1.0, 4.0]):
            got = (strategy_proof(division([lie, honest[1]], [1, 1])).share[0] * honest[0]).sum()
            assert got <= truth[0] + 1e-5

    def test_the_product_is_the_highest(self) -> None:
        asked = division([[4.0, 1.0], [3.0, 2.0]], [1, 1])
        _, rate = best_product(asked)
        best = max((4 * a + 1 - a) * (3 * (1 - a) + 2 * a) for a in np.linspace(0, 1, 2001))
        assert rate.prod() == close(best, rel=1e-3) and rate.prod() >= best * (1 - 1e-5)


class TestWhatNobodyShouldBelieve:
    @pytest.mark.parametrize("rate", [math.nan, math.inf, -1.0])
    def test_a_rate_that_is_none_is_refused_with_its_job_and_pool(self, rate: float) -> None:
        with pytest.raises(BadInput, match="Job 2, pool 1"):
            division([TWO[0], [3, rate, 1]], [1, 1, 1])

    def test_a_rate_a_billion_times_another_is_refused(self) -> None:
        with pytest.raises(BadInput, match="one of them is wrong"):
            division([TWO[0], [1e9, 2, 1]], [1, 1, 1])

    def test_steps_that_are_short_everywhere_are_no_advantage(self) -> None:
        asked = division([TWO[0], [3e9, 2e9, 1e9]], [1, 1, 1])
        assert max_min(asked).value == close(24 / 19, rel=1e-6)

    @pytest.mark.parametrize("name", ["weights", "steps", "age_s", "sizes"])
    @pytest.mark.parametrize("value", [-1.0, math.nan])
    def test_what_is_told_of_a_job_is_checked(self, name: str, value: float) -> None:
        with pytest.raises(BadInput, match=f"Job 2, {name}"):
            division(TWO, [1, 1, 1], **{name: [1.0, value]})

    def test_rates_of_other_pools_than_there_are(self) -> None:
        with pytest.raises(BadInput, match="2 pools"):
            division(TWO, [1, 1])

    def test_an_entitlement_that_lacks_what_it_needs_says_what(self) -> None:
        with pytest.raises(BadInput, match="needs steps"):
            makespan(division(TWO, [1, 1, 1]))

    def test_a_solver_that_is_out_of_time_says_so(self) -> None:
        draw = np.random.default_rng(1)
        n = 300
        rows = np.tile(np.arange(n), (n, 1))
        columns = Columns(np.ones(n), np.full(n, INFINITY), *packed(rows, draw.uniform(0.1, 1, (n, n))))
        program = LinearProgram(columns, np.full(n, -INFINITY), np.ones(n))
        with pytest.raises(NoAnswer) as none:
            program.solve(most_s=0.0)
        assert none.value.why is Lack.TOO_LATE
        assert program.solve().value > 0


@pytest.mark.parametrize("seed", range(4))
def test_sharing_told_by_kind_is_worth_as_much_as_every_pair_told(seed: int) -> None:
    draw = np.random.default_rng(seed)
    alone, kind = draw.uniform(0.2, 1, (4, 3)), draw.integers(0, 4, 12)
    sizes = draw.choice([1.0, 2.0], 4)[kind]
    beside = alone[:, None, :] * draw.uniform(0.4, 0.9, (4, 4, 3))
    gpus = np.array([2.0, 3.0, 3.0])
    two = [(i, j) for i in range(12) for j in range(i) if sizes[i] == sizes[j]]
    pairs = tuple(Pair(i, j, beside[kind[i], kind[j]], beside[kind[j], kind[i]]) for i, j in two)
    each = max_min(Division(alone[kind], gpus, sizes, pairs=pairs))
    kinds = max_min(Division(alone[kind], gpus, sizes, together=Together(kind, beside)))
    nobody = max_min(Division(alone[kind], gpus, sizes))
    assert kinds.value == pytest.approx(each.value, rel=1e-6) and kinds.value > 1.05 * nobody.value
    assert kinds.share.sum(axis=1).max() <= 1 + 1e-6
    level = kinds.rate / (alone[kind] @ gpus / gpus.sum()) * sizes
    assert level.min() == pytest.approx(kinds.value, rel=1e-6)


def test_a_job_of_no_kind_and_a_rate_beside_another_that_is_none_are_refused() -> None:
    rates, gpus = np.ones((2, 1)), np.ones(1)
    with pytest.raises(BadInput, match="none of those"):
        Division(rates, gpus, together=Together(np.array([0, 2]), np.ones((2, 2, 1))))
    with pytest.raises(BadInput, match="Kind 1 beside 0, pool 0"):
        Division(rates, gpus, together=Together(np.array([0, 1]), np.array([[[1.0], [1.0]], [[math.nan], [1.0]]])))
    with pytest.raises(BadInput, match="of the shape"):
        Division(rates, gpus, together=Together(np.array([0, 1]), np.ones((2, 2, 3))))
