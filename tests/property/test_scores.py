"""Scores from any runs at all: finite, around 1.0, indifferent to order and to the unit of time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pal_slurm.scores.apart import outlying, told_apart
from pal_slurm.scores.classes import Features, classify
from pal_slurm.scores.combine import Scores, combine
from pal_slurm.scores.learning import Beliefs, expected, hear
from pal_slurm.scores.nights import Runs, by_night, find_stalls

SECONDS = st.floats(1e-6, 1e5)


@st.composite
def runs(draw: st.DrawFn) -> Runs:
    size = draw(st.integers(1, 80))

    def whole(most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return draw(hnp.arrays(np.int64, size, elements=st.integers(0, most)))

    gpu = whole(12)
    return Runs(
        gpu=gpu,
        kernel=np.zeros(size, dtype=np.int64),
        node=gpu // 4,
        night=whole(6),
        seconds=draw(hnp.arrays(np.float64, size, elements=SECONDS)),
        at=draw(hnp.arrays(np.float64, size, elements=st.floats(0, 1e6))),
    )


def scored(made: Runs) -> Scores:
    nights = by_night(made)
    return combine(nights, np.zeros(len(nights), dtype=np.int64))


def ordered(made: Runs, order: np.ndarray[tuple[int], np.dtype[np.int64]], factor: float = 1.0) -> Runs:
    columns = (getattr(made, name)[order] for name in ("gpu", "kernel", "node", "night"))
    return Runs(*columns, made.seconds[order] * factor, made.at[order])  # type: ignore[call-arg]


@given(runs())
@settings(max_examples=300, deadline=None)
def test_scores_are_finite_with_an_interval_around_them(made: Runs) -> None:
    scores = scored(made)
    for values in (scores.score, scores.low, scores.high, scores.error, scores.at):
        assert np.isfinite(values).all()
    assert (scores.low < scores.score).all()
    assert (scores.score < scores.high).all()
    assert (scores.nights >= 1).all()
    assert scores.gpu.tolist() == sorted(set(made.gpu.tolist()))


@given(runs(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_runs_does_not_matter(made: Runs, random: object) -> None:
    order = np.arange(made.gpu.size)
    np.random.default_rng(7).shuffle(order)
    np.testing.assert_allclose(scored(made).log, scored(ordered(made, order)).log, rtol=1e-7, atol=1e-9)


@given(runs(), st.sampled_from([1e-3, 0.5, 60.0, 1000.0]))
@settings(max_examples=100, deadline=None)
def test_the_unit_of_time_does_not_matter(made: Runs, factor: float) -> None:
    other = scored(ordered(made, np.arange(made.gpu.size), factor))
    np.testing.assert_allclose(scored(made).log, other.log, rtol=1e-5, atol=1e-6)


@given(runs())
@settings(max_examples=200, deadline=None)
def test_a_stall_is_never_the_fastest_run_of_a_gpu(made: Runs) -> None:
    found = find_stalls(made)
    for gpu in set(made.gpu.tolist()):
        for night in set(made.night.tolist()):
            mine = (made.gpu == gpu) & (made.night == night)
            if mine.any():
                assert not found.stall[mine][made.seconds[mine].argmin()]
    assert (found.stall | ~found.shared).all()


@given(
    hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(0.05, 50)), st.floats(0, 1), st.integers(0, 2**32 - 1)
)
@settings(max_examples=200, deadline=None)
def test_bins_by_intervals_are_in_order_and_hold_every_gpu(
    scores: np.ndarray[tuple[int], np.dtype[np.float64]], width: float, seed: int
) -> None:
    half = width * np.random.default_rng(seed).random(scores.size)
    labels, means = told_apart(scores, scores - half, scores + half)
    assert labels.size == scores.size
    if scores.size:
        assert set(labels.tolist()) == set(range(means.size))
        assert (np.diff(labels[np.argsort(scores, kind="stable")]) >= 0).all()
        assert not (outlying(scores, scores - half) & (scores <= 1.3)).any()


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=20))
@settings(max_examples=200, deadline=None)
def test_every_application_joins_a_class_that_exists(points: dict[str, tuple[float, float]]) -> None:
    classes = classify({app: Features(*point) for app, point in points.items()}, ("A", "B", "C"))
    if classes is None:
        return
    for point in points.values():
        found = classes.join(Features(*point))
        assert found.cls in ("A", "B", "C")
        assert 0.5 <= found.sure <= 1.0


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(1e-4, 1)), min_size=1, max_size=12),
    st.lists(st.floats(-20, 20), min_size=1, max_size=20),
    st.floats(1e-3, 3),
)
@settings(max_examples=200, deadline=None)
def test_beliefs_stay_sane_whatever_is_measured(
    told: list[tuple[float, float]], measured: list[float], noise: float
) -> None:
    beliefs = Beliefs(np.array([mean for mean, _ in told]), np.array([sd**2 for _, sd in told]))
    most, least = 20 + beliefs.mean.max(), -20 + beliefs.mean.min()
    for ratio in measured:
        beliefs = hear(beliefs, ratio, noise)
        assert np.isfinite(beliefs.mean).all()
        assert np.isfinite(beliefs.var).all()
        assert (beliefs.var > 0).all()
        assert np.isfinite(expected(beliefs).mean)
    assert beliefs.mean.max() < most + 10
    assert beliefs.mean.min() > least - 100
