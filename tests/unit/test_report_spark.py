"""Pictures of numbers, and the colours of scores."""

from __future__ import annotations

import numpy as np
import pytest

from pal_slurm.cli.shades import score_paint, shade
from pal_slurm.report.history import together
from pal_slurm.report.spark import sparklines
from pal_slurm.report.text import Value
from pal_slurm.store.history import History

NAN = float("nan")


def test_a_rise_rises_and_what_is_flat_is_flat() -> None:
    values = np.array([[1.0, 1.1, 1.2, 1.3], [1.0, 1.001, 0.999, 1.0], [1.0, NAN, NAN, 2.0], [NAN, NAN, NAN, NAN]])
    assert sparklines(values, blocks=True) == ["▁▃▆█", "▅▅▄▅", "▁··█", "····"]
    assert sparklines(values, blocks=False) == [".-*@", "++=+", ".__@", "____"]


def test_many_nights_share_columns_and_none_is_lost() -> None:
    values = np.full((2, 365), 1.0)
    values[0, 300:] = 2.0
    values[1, :200] = NAN
    first, second = sparklines(values, blocks=True, width=10)
    assert (len(first), first[0], first[-1]) == (10, "▁", "█")
    assert second[:4] == "····"
    assert "·" not in second[6:]
    assert sparklines(np.zeros((3, 0)), blocks=True) == ["", "", ""]
    assert sparklines(np.zeros((0, 5)), blocks=True) == []


def test_cards_together_are_the_mean_of_their_logarithms() -> None:
    ratio = np.array([[[1.0, NAN], [4.0, 2.0], [3.0, 3.0]]])
    runs = np.ones((1, 3, 2), dtype=np.int64)
    history = History(("A",), 5, {"a": 0, "b": 1, "c": 2}, ratio, runs, runs * 2)
    found = together(history, {"a": "n1", "b": "n1", "c": "n2"})
    assert dict(found.rows) == {"n1": 0, "n2": 1}
    assert found.ratio[0] == pytest.approx(np.array([[2.0, 2.0], [3.0, 3.0]]))
    assert (found.runs[0, 0].tolist(), found.stalls[0, 0].tolist()) == ([2, 2], [4, 4])
    assert together(history, {}).ratio.shape == (1, 0, 2)


def test_colours_follow_the_scale_and_only_sure_drift_has_one() -> None:
    assert [shade(score) for score in (0.9, 1.0, 1.1, 1.2, 1.6)] == ["cyan", "green", None, "yellow", "red"]
    paint = score_paint(["A"])
    row: dict[str, Value] = {"A": 1.6, "A.drift": 0.1, "A.sure": True, "B.drift": 0.1, "B.sure": False, "node": "n1"}
    assert paint(row, "A", " 1.600") == "\x1b[31m 1.600\x1b[0m"
    assert paint(row, "A.drift", "0.100") == "\x1b[31m0.100\x1b[0m"
    assert paint(row, "B.drift", "0.100") == "0.100"
    assert paint(row, "node", "n1") == "n1"
