"""The history of a fleet: what was taken in night by night comes out as arrays, by card and class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pal_slurm.store import Store
from pal_slurm.store.history import HistoryRepo
from tests.unit.spools import DAY, NIGHT, card, document, fleet, put, put_night, take

TONIGHT = int(NIGHT // DAY)


def test_an_empty_store_has_no_nights(store: Store) -> None:
    history = HistoryRepo(store).fleet(("A", "B"), TONIGHT)
    assert (history.n_nights, dict(history.rows), history.ratio.shape) == (0, {}, (2, 0, 0))


def test_nights_come_out_as_they_were_measured(store: Store, tmp_path: Path) -> None:
    truth = fleet(4, slow={("n2", 1): 1.6})
    for ago in (0, 1, 3):
        put_night(tmp_path / "spool", truth, NIGHT - ago * DAY, seed=ago)
    take(store, tmp_path / "spool")
    history = HistoryRepo(store).fleet(("A", "B"), TONIGHT - 100)
    assert (history.first, history.n_nights) == (TONIGHT - 3, 4)
    row = history.rows[card("n2", 1)]
    assert np.isnan(history.ratio[0, row, 1])
    assert history.ratio[0, row, [0, 2, 3]] == pytest.approx(1.6, rel=0.05)
    assert history.runs[0, row].tolist() == [5, 0, 5, 5]
    assert np.isnan(history.ratio[1]).all()
    assert HistoryRepo(store).fleet(("A",), TONIGHT - 1).n_nights == 2
    assert HistoryRepo(store).fleet(("A",), TONIGHT + 1).n_nights == 0


def test_kernels_of_a_class_are_one_ratio_and_their_runs_add_up(store: Store, tmp_path: Path) -> None:
    truth = fleet(2)
    for app, slow in (("resnet", 1.2), ("gemm", 1.5)):
        for node in ("n1", "n2"):
            made = document(node, {**truth, ("n1", 0): slow}, app=app, noise=0.0)
            put(tmp_path / "spool", made, f"{app}-{node}.json")
    take(store, tmp_path / "spool")
    history = HistoryRepo(store).fleet(("A",), TONIGHT)
    row = history.rows[card("n1", 0)]
    assert history.ratio[0, row, 0] == pytest.approx((1.2 * 1.5) ** 0.5, rel=0.06)
    assert history.runs[0, row, 0] == 10


def test_more_nights_than_are_read_at_a_time_are_all_there(store: Store, tmp_path: Path) -> None:
    truth = fleet(1, gpus=2)
    for ago in range(40):
        put(tmp_path / "spool", document("n1", truth, NIGHT - ago * DAY, rounds=1))
    take(store, tmp_path / "spool")
    history = HistoryRepo(store).fleet(("A",), 0)
    assert history.n_nights == 40
    assert np.isfinite(history.ratio).all()
    assert (history.runs == 1).all()
