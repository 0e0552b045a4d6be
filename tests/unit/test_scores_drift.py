"""Drift: a change is told from noise and from odd nights, and says how large it is."""

from __future__ import annotations

import numpy as np
import pytest

from pal_slurm.scores.drift import drift

RNG = np.random.default_rng(7)


def fleet(gpus: int, nights: int, noise: float = 0.005) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.exp(RNG.normal(0.0, 0.04, (gpus, 1)) + RNG.normal(0.0, noise, (gpus, nights)))


@pytest.mark.parametrize("nights", [6, 7, 14, 30, 90])
def test_a_fleet_that_stays_as_it_is_has_no_sure_drift(nights: int) -> None:
    found = drift(fleet(10_000, nights))
    assert not found.sure.any()
    assert np.abs(found.change).max() < 0.03
    assert (found.nights == nights).all()


@pytest.mark.parametrize("change", [1.05, 0.9, 2.0])
@pytest.mark.parametrize("nights", [6, 10, 30])
def test_a_step_in_the_middle_is_sure_and_as_large_as_it_was(nights: int, change: float) -> None:
    ratio = fleet(200, nights)
    ratio[7, nights // 2 :] *= change
    found = drift(ratio)
    assert found.sure.nonzero()[0].tolist() == [7]
    assert found.change[7] == pytest.approx(change - 1, abs=0.02)


def test_a_slow_decline_is_sure() -> None:
    ratio = fleet(200, 30)
    ratio[3] *= np.linspace(1.0, 1.15, 30)
    found = drift(ratio)
    assert found.sure.nonzero()[0].tolist() == [3]
    assert 0.07 < found.change[3] < 0.13


@pytest.mark.parametrize("odd", [0, 3, 5])
def test_one_odd_night_is_no_drift(odd: int) -> None:
    ratio = fleet(50, 6)
    ratio[0, odd] *= 1.8
    found = drift(ratio)
    assert not found.sure.any()
    assert abs(found.change[0]) < 0.02


def test_a_card_that_jumps_all_the_time_does_not_drift() -> None:
    ratio = fleet(50, 12)
    ratio[0] *= np.where(np.arange(12) % 2, 1.5, 1.0)
    assert not drift(ratio).sure.any()


def test_nights_that_were_missed_are_left_out() -> None:
    ratio = fleet(60, 30)
    ratio[5, 15:] *= 1.2
    ratio[5, ::2] = np.nan
    ratio[6] = np.nan
    ratio[8, 1:] = np.nan
    found = drift(ratio)
    assert found.sure.nonzero()[0].tolist() == [5]
    assert found.nights[[5, 6, 8]].tolist() == [15, 0, 1]
    assert np.isnan(found.change[[6, 8]]).all()


def test_few_nights_show_a_change_and_are_never_sure() -> None:
    found = drift(np.array([[1.0, 1.5], [1.0, np.nan]]))
    assert found.change[0] == pytest.approx(0.5)
    assert not found.sure.any()


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (3, 0), (3, 1)])
def test_nothing_measured_is_no_error(shape: tuple[int, int]) -> None:
    found = drift(np.full(shape, np.nan))
    assert not found.sure.any()
    assert np.isnan(found.change).all()
