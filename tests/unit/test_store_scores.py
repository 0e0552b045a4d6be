"""Scores belong to cards, and what can't be trusted counts as 1.0 (P7)."""

from __future__ import annotations

import numpy as np
import pytest

from pal_slurm.model import Cluster, ScoreTable, homogeneous
from pal_slurm.scores import alike, bin_scores, binned
from pal_slurm.scores.table import Binning
from pal_slurm.store import Delivery, GpuRepo, Measurement, Score, ScoreRepo, Sighting, Store

NOW = 1_800_000_000.0
DAY = 86_400.0
CLASSES = ("A", "B")


def document(name: str, *scores: tuple[str, str, int, float], at: float = NOW, cls: str = "A") -> Delivery:
    """(uuid, node, slot, score) ..."""
    return Delivery(
        name,
        "import",
        [Sighting(uuid, node, slot, "v100") for uuid, node, slot, _ in scores],
        [Measurement(uuid, cls, at, score=score) for uuid, _, _, score in scores],
        [Score(uuid, cls, score, 1, at) for uuid, _, _, score in scores],
    )


def table_of(
    store: Store, cluster: Cluster, classes: tuple[str, ...], now: float, stale_after_s: float, binning: Binning
) -> ScoreTable:
    return binned(classes, *ScoreRepo(store).aligned(cluster, classes, now, stale_after_s), binning)


def test_scores_come_out_where_their_gpus_sit(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("u1", "n2", 1, 1.5), ("u2", "n1", 0, 0.9), ("u3", "n1", 1, 1.0)), NOW)
    table = table_of(store, homogeneous(2, 2), CLASSES, NOW, 30 * DAY, bin_scores)
    assert table.score[0].tolist() == [[0.9, 1.0], [1.0, 1.5]]
    assert table.known[0].tolist() == [[True, True], [False, True]]
    assert not table.known[1].any()
    assert (table.score[1] == 1.0).all()


def test_an_unknown_gpu_shares_the_bin_of_the_median_ones(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(
        document("d", ("u1", "n1", 0, 0.8), ("u2", "n1", 1, 0.81), ("u3", "n1", 2, 1.005), ("u4", "n1", 3, 1.5)), NOW
    )
    table = table_of(store, homogeneous(2, 4), ("A",), NOW, DAY, alike)
    assert table.bins[0, 1, 0] == table.bins[0, 0, 2]
    assert table.bins[0, 0, 0] != table.bins[0, 0, 3]


def test_where_only_some_cards_have_scores_the_others_count_as_median_and_these_as_measured(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("u1", "n1", 0, 0.7), ("u2", "n1", 1, 1.5)), NOW)
    table = table_of(store, homogeneous(4, 4), ("A",), NOW, DAY, alike)
    counts_as = table.bin_value[0][table.bins[0]]
    assert counts_as[0, :2].tolist() == [0.7, 1.5]
    assert (counts_as[1:] == 1.0).all()
    assert table.bins[0, 0, 0] < table.bins[0, 1, 0] < table.bins[0, 0, 1]


def test_one_slow_card_alone_makes_no_other_slow(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("u1", "n1", 0, 1.5)), NOW)
    table = table_of(store, homogeneous(2, 4), ("A",), NOW, DAY, alike)
    assert table.bin_value[0][table.bins[0]].ravel().tolist() == [1.5] + 7 * [1.0]


@pytest.mark.parametrize(
    ("score", "age"),
    [(1.3, 31 * DAY), (1.3, -2 * DAY), (0.0, 0.0), (-1.0, 0.0), (1e9, 0.0), (1e308, 0.0)],
    ids=["stale", "from the future", "zero", "negative", "absurd", "as good as infinite"],
)
def test_a_score_that_cannot_be_trusted_is_neutral(store: Store, score: float, age: float) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("u1", "n1", 0, score), at=NOW - age), NOW)
    table = table_of(store, homogeneous(1, 1), CLASSES, NOW, 30 * DAY, bin_scores)
    assert table.score[0, 0, 0] == 1.0
    assert not table.known.any()


def test_scores_of_nodes_that_slurm_does_not_have_are_left_out(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("u1", "ghost", 0, 1.5), ("u2", "n1", 7, 1.5), ("u3", "n1", 0, 1.2)), NOW)
    table = table_of(store, homogeneous(1, 2), CLASSES, NOW, DAY, bin_scores)
    assert table.score[0].tolist() == [[1.2, 1.0]]


def test_an_empty_store_gives_a_neutral_table(store: Store) -> None:
    table = table_of(store, homogeneous(3, 2), CLASSES, NOW, DAY, bin_scores)
    assert not table.known.any()
    assert (table.score == 1.0).all()
    assert not table.bins.any()


def test_a_card_that_moved_keeps_its_score_and_neither_slot_inherits_the_others(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("slow", "n3", 1, 1.5), ("other", "n1", 0, 0.9)), NOW - DAY)
    GpuRepo(store).see([Sighting("slow", "n1", 0), Sighting("new", "n3", 1)], NOW)
    table = table_of(store, homogeneous(3, 2), ("A",), NOW, 30 * DAY, bin_scores)
    assert table.score[0, 0, 0] == 1.5
    assert not table.known[0, 2, 1]
    assert table.known[0].sum() == 1
    life = GpuRepo(store).life("slow")
    assert [(s.node, s.slot, s.until) for s in life] == [("n3", 1, NOW), ("n1", 0, None)]
    assert life[0].model == "v100"
    assert [s.uuid for s in GpuRepo(store).current()] == ["slow", "new"]


def test_the_same_document_counts_once(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("d", ("u1", "n1", 0, 1.5)), NOW)
    revision = repo.revision()
    assert repo.add(document("d", ("u1", "n1", 0, 1.1)), NOW + DAY).known_before
    assert repo.revision() == revision
    assert [s.score for s in repo.placed()] == [1.5]


def test_an_older_measurement_does_not_replace_a_newer_score(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("new", ("u1", "n1", 0, 1.5)), NOW)
    added = repo.add(document("old", ("u1", "n1", 0, 1.1), ("u2", "n1", 1, 1.0), at=NOW - DAY), NOW)
    assert (added.scores, added.kept) == (1, 1)
    assert [(s.uuid, s.score) for s in repo.placed()] == [("u1", 1.5), ("u2", 1.0)]


def test_a_newer_measurement_replaces_and_changes_the_revision(store: Store) -> None:
    repo = ScoreRepo(store)
    repo.add(document("one", ("u1", "n1", 0, 1.5)), NOW)
    before = repo.revision()
    repo.add(document("two", ("u1", "n1", 0, 1.1), at=NOW + 1), NOW + 1)
    assert repo.revision() > before
    assert [s.score for s in repo.placed()] == [1.1]


def test_a_document_that_fails_in_the_middle_leaves_nothing(store: Store) -> None:
    repo = ScoreRepo(store)
    good = document("d", ("u1", "n1", 0, 1.5))
    broken = Delivery("d", "import", good.sightings, good.runs, [Score("nobody", "A", 1.0, 1, NOW)])
    with pytest.raises(KeyError):
        repo.add(broken, NOW)
    assert GpuRepo(store).current() == []
    assert repo.revision() == 0


def test_ten_thousand_gpus_are_aligned_exactly(store: Store) -> None:
    nodes, gpus = 1250, 8
    values = np.random.default_rng(7).normal(1.0, 0.05, (nodes, gpus))
    rows = [(f"u{n}-{g}", f"n{n + 1}", g, float(values[n, g])) for n in range(nodes) for g in range(gpus)]
    ScoreRepo(store).add(document("d", *rows), NOW)
    table = table_of(store, homogeneous(nodes, gpus), ("A",), NOW, DAY, bin_scores)
    assert (table.score[0] == values).all()
    assert table.known.all()
