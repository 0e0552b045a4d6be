"""Bins for placement: what can't be told apart shares a bin, what can does not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pal_slurm.scores.alike import RESOLUTION, alike


def test_half_a_percent_is_no_difference_and_ten_percent_is() -> None:
    labels, means = alike(np.array([1.0, 1.004, 0.996, 1.1]))
    assert labels.tolist() == [0, 0, 0, 1]
    assert means.tolist() == [1.0, 1.1]


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=60))
def test_bins_are_ordered_narrow_and_as_few_as_can_be(scores: list[float]) -> None:
    values = np.array(scores)
    labels, means = alike(values)
    assert (np.diff(means) > 0).all()
    firsts = [values[labels == b].min() for b in range(len(means))]
    for b, first in enumerate(firsts):
        assert values[labels == b].max() <= first * (1 + RESOLUTION)
        if b:
            assert first > firsts[b - 1] * (1 + RESOLUTION)


def test_no_scores_make_no_bins() -> None:
    labels, means = alike(np.zeros(0))
    assert labels.size == means.size == 0
