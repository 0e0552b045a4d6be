"""Scores from nights of runs: stalls, changes, shifts, intervals; and what they say of measured V100s."""

import numpy as np
import pytest

from pal_slurm.scores.apart import outlying, told_apart
from pal_slurm.scores.combine import Scores, combine
from pal_slurm.scores.fleet import newest_shift
from pal_slurm.scores.nights import Runs, by_night, find_stalls
from tests.unit.longhorn import draws, longhorn, spearman


def fleet(seconds: np.ndarray, per_node: int = 4) -> Runs:
    """Runs from an array (GPU, night, run)."""
    gpu, night, run = np.indices(seconds.shape)
    return Runs(
        gpu=gpu.ravel(),
        kernel=np.zeros(gpu.size, dtype=np.intp),
        node=gpu.ravel() // per_node,
        night=night.ravel(),
        seconds=seconds.ravel(),
        at=(night * 86_400.0 + run * 60.0).ravel(),
    )


def scored(seconds: np.ndarray, setup: np.ndarray | None = None, per_node: int = 4) -> Scores:
    nights = by_night(fleet(seconds, per_node))
    told = np.zeros(len(nights), dtype=np.intp) if setup is None else setup[nights.gpu, nights.night]
    return combine(nights, told)


def quiet(gpus: int, nights: int, runs: int = 5, noise: float = 0.005, seed: int = 1) -> np.ndarray:
    return 2.0 * np.random.default_rng(seed).lognormal(0, noise, (gpus, nights, runs))


# Longhorn -----------------------------------------------------------------------------------------------------------


def test_the_runs_above_one_and_a_half_are_transient_node_stalls() -> None:
    data = longhorn("resnet")
    slow = data.runs.seconds / np.median(data.runs.seconds) > 1.5
    found = find_stalls(data.runs)
    assert slow.sum() == 20
    assert found.stall[slow].all()
    assert found.shared[slow].all()


def test_no_gpu_of_longhorn_is_lastingly_slow() -> None:
    nights = by_night(longhorn("resnet").runs)
    scores = combine(nights, np.zeros(len(nights), dtype=np.intp))
    assert scores.score.max() < 1.13
    assert not outlying(scores.score, scores.low).any()


@pytest.mark.parametrize("seed", range(5))
def test_five_nights_of_draws_order_the_gpus_as_all_data_do(seed: int) -> None:
    data = longhorn("resnet")
    nights = by_night(draws(data, nights=5, per_night=16, seed=seed))
    scores = combine(nights, np.zeros(len(nights), dtype=np.intp))
    assert spearman(scores.log, data.medians) >= 0.9
    assert not outlying(scores.score, scores.low).any()
    assert scores.score.max() < 1.13


def test_whole_node_runs_show_as_node_effects_and_single_gpu_runs_do_not() -> None:
    for app, of_node in (("resnet", True), ("pagerank", False)):
        nights = by_night(longhorn(app).runs)
        scores = combine(nights, np.zeros(len(nights), dtype=np.intp))
        share = np.var(scores.node_log) / np.var(scores.log)
        assert (share > 0.6) == of_node, f"{app}: {share:.2f}"


# Stalls and lasting slowness ----------------------------------------------------------------------------------------


def test_a_run_that_stalled_alone_changes_no_score_and_is_counted() -> None:
    seconds = quiet(8, 1)
    seconds[3, 0, 2] *= 2.5
    scores = scored(seconds)
    assert abs(scores.score[3] - 1) < 0.02
    assert scores.stalls.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert scores.node_stalls.sum() == 0


def test_a_node_that_stalled_is_told_from_a_gpu_that_did() -> None:
    seconds = quiet(8, 1)
    seconds[4:8, 0, 2] *= 2.5
    scores = scored(seconds)
    assert scores.node_stalls.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_slow_in_every_run_is_lasting_from_the_first_night_on() -> None:
    seconds = quiet(16, 1)
    seconds[5] *= 1.6
    scores = scored(seconds)
    assert scores.score[5] == pytest.approx(1.6, rel=0.02)
    assert outlying(scores.score, scores.low).nonzero()[0].tolist() == [5]


def test_a_gpu_that_stalls_more_often_than_not_is_slow() -> None:
    seconds = quiet(8, 3, runs=5)
    seconds[2, :, :3] *= 2.0
    scores = scored(seconds)
    assert scores.intermittent.tolist() == [False, False, True, False, False, False, False, False]
    assert scores.score[2] > 1.4


@pytest.mark.parametrize("night", [0, 1, 2, 3, 4])
def test_one_slow_night_is_transient_wherever_it_stands(night: int) -> None:
    seconds = quiet(8, 5)
    seconds[6, night] *= 1.8
    assert abs(scored(seconds).score[6] - 1) < 0.02


def test_two_slow_nights_in_a_row_are_believed_and_two_good_ones_forgive() -> None:
    seconds = quiet(8, 9)
    seconds[6, 5:7] *= 1.5
    slow, after = scored(seconds[:, :7]), scored(seconds)
    assert slow.score[6] == pytest.approx(1.5, rel=0.03)
    assert slow.since[6] == 5
    assert after.score[6] == pytest.approx(1.0, rel=0.03)


# Levels -------------------------------------------------------------------------------------------------------------


def test_a_fleet_that_is_slower_as_a_whole_is_an_alert_and_changes_no_score() -> None:
    seconds = quiet(16, 6)
    seconds[3] *= 1.2
    usual = scored(seconds)
    seconds[:, 5] *= 1.15
    hot = scored(seconds)
    np.testing.assert_allclose(hot.score, usual.score, rtol=0.001)
    assert newest_shift(usual.level_night, usual.level) is None
    shift = newest_shift(hot.level_night, hot.level)
    assert shift is not None
    assert shift.factor == pytest.approx(1.15, rel=0.01)
    assert "slower" in str(shift)


def test_a_night_that_saw_only_the_slow_half_does_not_make_it_fast() -> None:
    seconds = quiet(16, 4)
    seconds[8:] *= 1.1
    runs = fleet(seconds)
    seen = ~((runs.night == 3) & (runs.gpu < 8))
    part = Runs(*(getattr(runs, name)[seen] for name in ("gpu", "kernel", "node", "night", "seconds", "at")))
    nights = by_night(part)
    scores = combine(nights, np.zeros(len(nights), dtype=np.intp))
    assert np.median(scores.score[8:]) / np.median(scores.score[:8]) == pytest.approx(1.1, rel=0.01)


def test_a_new_driver_or_power_cap_starts_anew() -> None:
    seconds = quiet(8, 6)
    seconds[2, :4] *= 1.4
    setup = np.zeros((8, 6), dtype=np.intp)
    setup[2, 4:] = 1
    scores = scored(seconds, setup)
    assert scores.score[2] == pytest.approx(1.0, abs=0.02)
    assert scores.nights.tolist() == [6, 6, 2, 6, 6, 6, 6, 6]
    assert scores.error[2] > scores.error[0]


def test_newer_nights_weigh_more() -> None:
    seconds = quiet(32, 20, noise=0.001)
    seconds[1] *= np.linspace(1.0, 1.06, 20)[:, None]
    assert 1.035 < scored(seconds).score[1] < 1.06


# Intervals and bins -------------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.lognormal(0, 0.05, 64)
        truth /= np.median(truth)
        seconds = truth[:, None, None] * rng.lognormal(0, 0.03, (64, 4, 5))
        scores = scored(seconds)
        held.append(np.mean((scores.low <= truth) & (truth <= scores.high)))
    assert 0.90 <= float(np.mean(held)) <= 0.995


def test_gpus_that_cannot_be_told_apart_share_a_bin() -> None:
    scores = np.array([1.0, 1.04, 1.08, 1.5])
    sure, unsure = np.full(4, 0.004), np.full(4, 0.2)
    assert told_apart(scores, scores - sure, scores + sure)[0].tolist() == [0, 1, 2, 3]
    assert told_apart(scores, scores - unsure, scores + unsure)[0].tolist() == [0, 0, 0, 1]
    one_unsure = np.array([0.004, 0.2, 0.004, 0.004])
    assert told_apart(scores, scores - one_unsure, scores + one_unsure)[0].tolist() == [0, 0, 1, 2]


def test_a_wide_interval_names_nobody_an_outlier() -> None:
    scores = np.append(np.linspace(0.95, 1.05, 20), 1.4)
    half = np.append(np.full(20, 0.01), 0.45)
    assert not outlying(scores, scores - half).any()
    half[-1] = 0.05
    assert outlying(scores, scores - half).tolist() == [False] * 20 + [True]


def test_no_runs_are_no_scores() -> None:
    assert len(by_night(fleet(np.zeros((0, 1, 1))))) == 0
