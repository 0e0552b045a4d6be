"""Exact k-means on a line, the silhouette and the published outlier rule."""

from __future__ import annotations

import csv
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pal_slurm.scores.bins import best_k, bin_scores, kmeans_1d, outliers, silhouette

DATA = Path(__file__).parents[2] / "../shared/data/pal"


def spread(values: np.ndarray, labels: np.ndarray) -> float:
    return sum(float(((part := values[labels == j]) - part.mean()).__pow__(2).sum()) for j in set(labels.tolist()))


def brute(values: np.ndarray, k: int) -> float:
    """Least squared deviation over every partition of the sorted distinct values into k intervals."""
    x = np.sort(values)
    distinct = np.unique(x)
    least = np.inf
    for cuts in combinations(distinct[1:], min(k, distinct.size) - 1):
        least = min(least, spread(x, np.searchsorted(np.array(cuts), x, side="right")))
    return float(least)


@settings(deadline=None)
@given(st.lists(st.integers(50, 300), min_size=1, max_size=10), st.integers(1, 5))
def test_no_partition_is_better_than_the_dynamic_program(raw: list[int], k: int) -> None:
    values = np.array(raw) / 100
    assert spread(values, kmeans_1d(values, k)) == pytest.approx(brute(values, k), abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.floats(0.5, 4.0), min_size=1, max_size=60))
def test_labels_rise_with_the_scores_and_equal_scores_share_a_bin(raw: list[float]) -> None:
    values = np.array(raw)
    labels, centres = bin_scores(values)
    assert (np.diff(labels[np.argsort(values, kind="stable")]) >= 0).all()
    assert sorted(set(labels.tolist())) == list(range(centres.size))
    assert (np.diff(centres) > 0).all()
    for value in set(raw):
        assert len(set(labels[values == value].tolist())) == 1


def naive_silhouette(values: np.ndarray, labels: np.ndarray) -> float:
    marks = []
    for i, x in enumerate(values):
        mine = (labels == labels[i]) & (np.arange(values.size) != i)
        if not mine.any():
            marks.append(0.0)
            continue
        a = float(np.abs(values[mine] - x).mean())
        b = min(float(np.abs(values[labels == j] - x).mean()) for j in set(labels.tolist()) if j != labels[i])
        marks.append((b - a) / max(a, b) if max(a, b) else 0.0)
    return float(np.mean(marks))


@settings(deadline=None)
@given(st.lists(st.integers(50, 300), min_size=4, max_size=30, unique=True), st.integers(2, 4))
def test_the_silhouette_agrees_with_its_definition(raw: list[int], k: int) -> None:
    values = np.array(raw) / 100
    labels = kmeans_1d(values, k)
    assert silhouette(values, labels) == pytest.approx(naive_silhouette(values, labels), abs=1e-9)


def test_three_clear_groups_are_found() -> None:
    values = np.concatenate([np.linspace(c - 0.01, c + 0.01, 20) for c in (0.9, 1.0, 1.2)])
    assert best_k(values) == 3


def test_one_very_slow_card_is_an_outlier_with_a_bin_of_its_own() -> None:
    values = np.append(np.linspace(0.95, 1.05, 63), 2.8)
    assert outliers(values).nonzero()[0].tolist() == [63]
    labels, centres = bin_scores(values, regular=2)
    assert labels[63] == 2
    assert (labels == 2).sum() == 1
    assert centres[2] == pytest.approx(2.8)


@pytest.mark.parametrize("scores", [[], [1.0], [1.0, 1.0], [1.0, 1.1]])
def test_few_scores_need_few_bins(scores: list[float]) -> None:
    labels, centres = bin_scores(scores)
    assert centres.size == len(set(scores))
    assert labels.size == len(scores)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        bin_scores([1.0, bad])


def test_many_copies_of_each_score_are_binned_as_one_copy_would_be() -> None:
    block = np.random.default_rng(1).normal(1, 0.03, 500)
    labels = kmeans_1d(np.tile(block, 200), 4)
    assert (labels == np.tile(kmeans_1d(block, 4), 200)).all()


@pytest.mark.skipif(not DATA.exists(), reason="the public data are not at ../shared/data")
def test_seed_42_gives_the_published_bins() -> None:
    with (DATA / "artifact_seed42_scores.csv").open() as file:
        values = np.array([float(row["class_a"]) for row in csv.DictReader(file)])
    labels, centres = bin_scores(values, regular=2)
    assert np.bincount(labels).tolist() == [51, 12, 1]
    assert (centres / np.median(centres)).round(3).tolist() == [0.913, 1.0, 2.595]
