"""The figures of the fleet's page, from nights that went through ingest; on every database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pal_slurm.config import Config
from pal_slurm.errors import StoreError
from pal_slurm.learning.knowledge import score_table
from pal_slurm.report.figures import Fleet, Gpu, Mark, State
from pal_slurm.report.fleet import PlannedWith, fleet_of
from pal_slurm.report.history import HistoryColumns, Look, day, night_of
from pal_slurm.report.inventory import cluster_of
from pal_slurm.report.spread import histograms, spreads
from pal_slurm.report.trends import drifts, trends
from pal_slurm.store import GpuRepo, ScoreRepo, Stay, Store
from pal_slurm.store.fleet import LevelRow
from pal_slurm.store.history import History, HistoryRepo
from tests.unit.spools import NOW
from tests.web.fleets import NIGHTS, SLOW, fill


def figures(store: Store, nights: int = 28, now: float = NOW) -> Fleet:
    stays = GpuRepo(store).current()
    cluster = cluster_of(stays)
    return fleet_of(
        store, PlannedWith(stays, cluster, score_table(store, Config(), cluster, now), 30.0), [], nights, now
    )


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> Fleet:
    fill(store, tmp_path / "spool", NOW)
    return figures(store)


def test_the_fleet_in_figures(fleet: Fleet, store: Store) -> None:
    _every_gpu_has_the_score_that_is_stored(fleet, store)
    _what_is_stale_and_what_was_never_measured_is_counted(fleet)
    _the_slowest_come_first_with_their_evidence(fleet)
    _a_hot_night_is_seen_in_its_kernel_only(fleet)
    _a_gpu_that_changed_is_named_and_no_other(fleet)
    _nights_are_counted(fleet)


def _every_gpu_has_the_score_that_is_stored(fleet: Fleet, store: Store) -> None:
    stored = {(s.uuid, s.cls): s for s in ScoreRepo(store).placed()}
    assert len(fleet.gpus) == 64
    for gpu in fleet.gpus:
        for cls, mark in gpu.marks.items():
            score = stored.get((gpu.uuid, cls))
            assert mark.score == (score.score if score else None)
            if score:
                assert (mark.low, mark.high, mark.nights) == (score.ci_low, score.ci_high, score.nights)


def _what_is_stale_and_what_was_never_measured_is_counted(fleet: Fleet) -> None:
    assert [(c.cls, c.fresh, c.stale, c.never) for c in fleet.coverage] == [(cls, 56, 4, 4) for cls in "ABC"]
    assert {gpu.node for gpu in fleet.gpus if gpu.marks["B"].state is State.STALE} == {"n15"}
    assert {gpu.node for gpu in fleet.gpus if gpu.marks["B"].state is State.NEVER} == {"n16"}
    assert sum(s.gpus for s in fleet.spread) == 3 * 56  # what is stale is in no distribution


def _the_slowest_come_first_with_their_evidence(fleet: Fleet) -> None:
    assert [(w.node, w.slot) for w in fleet.worst[:2]] == [("n7", 2), ("n3", 1)]
    assert {(w.node, w.slot) for w in fleet.worst[:6]} == set(SLOW)
    assert len(fleet.worst) == 10
    first = fleet.worst[0]
    assert (first.cls, first.outlier, set(first.others)) == ("A", True, {"B", "C"})
    assert first.low is not None
    assert first.high is not None
    assert first.low < first.score < first.high
    assert first.nights == len(first.history)
    assert first.runs == 5 * len(first.history)
    assert all(abs(own.score / SLOW["n7", 2] - 1) < 0.05 for own in first.history)
    assert [w.outlier for w in fleet.worst[1:]] == [False] * 9
    assert fleet.outliers == 1
    shared = next(w for w in fleet.worst if w.node == "n11")
    assert shared.node_part is not None
    assert shared.node_part > 1.05


def _a_hot_night_is_seen_in_its_kernel_only(fleet: Fleet) -> None:
    shifts = {t.app: t.shift for t in fleet.trends}
    assert shifts == {"resnet": None, "transformer": None, "pagerank": pytest.approx(1.086, abs=0.01)}
    for trend in fleet.trends:
        assert len(trend.nights) == NIGHTS
        assert np.median([night.level for night in trend.nights]) == pytest.approx(1.0)
        assert all(night.runs == 5 * night.gpus for night in trend.nights)
    (alert,) = fleet.alerts
    assert alert.kind == "shift"


def _a_gpu_that_changed_is_named_and_no_other(fleet: Fleet) -> None:
    assert {(d.node, d.slot) for d in fleet.drift} == {("n5", 0)}
    assert {d.cls for d in fleet.drift} == {"A", "B", "C"}
    assert all(1.04 < d.after / d.before < 1.09 for d in fleet.drift)


def _nights_are_counted(fleet: Fleet) -> None:
    assert len(fleet.by_night) == NIGHTS
    assert {night.gpus for night in fleet.by_night} <= {44, 48}
    assert [t.nights[-1].gpus for t in fleet.trends] == [fleet.by_night[-1].gpus] * 3


def test_fewer_nights_are_fewer_nights(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "spool", NOW)
    few = figures(store, nights=3)
    assert len(few.by_night) == 3
    assert {len(t.nights) for t in few.trends} == {3}
    assert few.drift == ()


def test_when_all_is_stale_nothing_is_slow(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "spool", NOW)
    later = figures(store, now=NOW + 100 * 86_400)
    assert (later.worst, later.histograms, later.spread, later.outliers) == ((), (), (), 0)
    assert [c.fresh for c in later.coverage] == [0, 0, 0]
    assert len(later.trends) == 3  # the newest nights that there are


def test_without_any_gpu_there_is_nothing_to_report(store: Store) -> None:
    with pytest.raises(StoreError, match="no GPU is known yet"):
        figures(store)


def gpu(score: float | None, model: str = "m", state: State = State.FRESH) -> Gpu:
    return Gpu("n", 0, "u", model, {"A": Mark(state if score else State.NEVER, score)})


def test_a_histogram_holds_every_fresh_score_also_those_beyond_its_ends() -> None:
    scores = [0.06, 0.9, 0.999, 1.0, 1.001, 1.004999, 1.005, 1.3, 2.0, 2.5, 49.0]
    (found,) = histograms([*map(gpu, scores), gpu(None), gpu(7.0, state=State.STALE)], ["A"])
    assert found.gpus == sum(bar.gpus for bar in found.bars) == len(scores)
    assert (found.below, found.above) == (1, 2)
    assert len(found.bars) <= 62
    narrow = histograms([gpu(1.0)] * 5, ["A"])[0]
    assert [(bar.low, bar.high) for bar in narrow.bars if bar.gpus] == [(0.995, 1.005)]
    assert histograms([gpu(None)], ["A"]) == ()


def test_each_model_has_a_spread_of_its_own() -> None:
    found = spreads([gpu(1.0, "a"), gpu(1.2, "a"), gpu(1.0, "b"), gpu(3.0, "b", State.STALE)], ["A"])
    assert [(s.model, s.gpus, s.worst, s.slow) for s in found] == [("a", 2, 1.2, 0.5), ("b", 1, 1.0, 0.0)]


def test_nights_have_the_date_they_began_on_in_utc() -> None:
    assert (day(0), day(20_000)) == ("1970-01-01", "2024-10-04")
    assert night_of(20_000 * 86_400 + 5.0) == 20_000


def test_one_night_makes_a_trend_without_a_shift() -> None:
    (found,) = trends([LevelRow("A", "x", "gpu", "m", 20_000, 4, 20, 1, 0, 0.3)])
    assert ([n.level for n in found.nights], found.shift) == ([1.0], None)


def history(ratio: np.ndarray[Any, np.dtype[np.float64]]) -> History:
    rows = {f"u{row}": row for row in range(ratio.shape[0])}
    runs = np.full((1, *ratio.shape), 5)
    return History(("A",), 20_000, rows, ratio[None], runs, np.zeros_like(runs))


def test_a_gpu_that_changed_is_shown_with_what_it_was_and_is_if_it_sits_anywhere() -> None:
    ratio = np.random.default_rng(3).lognormal(0, 0.004, (40, 12))
    ratio[7, 5:] *= 1.1
    ratio[8, 5:] *= 0.8
    ratio[9, 5:] *= 1.3  # taken out of its node since
    sits = {f"u{row}": Stay(f"u{row}", "m", "n1", row, 0.0, None) for row in range(40) if row != 9}
    first, second = drifts(history(ratio), sits)
    assert (first.slot, first.uuid, first.cls, first.nights) == (8, "u8", "A", 12)
    assert first.before == pytest.approx(1.0, abs=0.01)
    assert first.after == pytest.approx(0.8, abs=0.01)
    assert second.slot == 7
    assert second.after / second.before == pytest.approx(1.1, abs=0.01)


def test_the_page_and_the_scores_since_then_name_the_same_gpus(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path / "spool", NOW)
    fleet = figures(store, nights=20)
    since = HistoryRepo(store).fleet(fleet.classes, night_of(NOW) - 20)
    told = HistoryColumns(since, Look(blocks=True), want_nights=False)
    sure = {(uuid, cls): found["drift"] for uuid in since.rows for cls in since.classes
            if (found := told.of(uuid, cls))["sure"]}  # fmt: skip
    assert sure == {(d.uuid, d.cls): round(d.after / d.before - 1, 4) for d in fleet.drift}
    assert sure
