"""Scores as rows. In: stays, stored scores, the table that pald plans with. Out: rows per GPU, rows per bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.report.text import Value, age_days, fold, shown
from pal_slurm.scores.apart import outlying, told_apart
from pal_slurm.scores.bins import bin_scores
from pal_slurm.store import PlacedScore, Stay


def gpu_fields(classes: Sequence[str]) -> list[str]:
    """All columns of the per-GPU table."""
    per_class = [
        f"{c}{part}"
        for c in classes
        for part in ("", ".bin", ".age_days", ".runs", ".ci_low", ".ci_high", ".known", ".source", ".asked")
    ]
    return ["node", "nodes", "slot", "uuid", "model", *per_class]


def gpu_rows(
    stays: Sequence[Stay], stored: Sequence[PlacedScore], cluster: Cluster, table: ScoreTable, now: float
) -> list[dict[str, Value]]:
    """One row per GPU, by node and slot. A score that is stale is shown, with `known` false: it counts as 1.0."""
    by_card = {(s.uuid, s.cls): s for s in stored}
    rows = []
    for stay in stays:
        at = (cluster.node_index[stay.node], stay.slot)
        row: dict[str, Value] = {
            "node": stay.node,
            "slot": stay.slot,
            "uuid": stay.uuid or None,
            "model": stay.model or None,
        }
        for c, cls in enumerate(table.classes):
            score = by_card.get((stay.uuid, cls))
            row[cls] = score.score if score else None
            row[f"{cls}.bin"] = int(table.bins[(c, *at)])
            row[f"{cls}.known"] = bool(table.known[(c, *at)])
            row[f"{cls}.age_days"] = age_days(score.measured_at, now) if score else None
            row[f"{cls}.runs"] = score.n_runs if score else None
            row[f"{cls}.ci_low"] = score.ci_low if score else None
            row[f"{cls}.ci_high"] = score.ci_high if score else None
            row[f"{cls}.source"] = score.source if score else None
            row[f"{cls}.asked"] = score.asked if score else None
        rows.append(row)
    return rows


def waiting(stored: Sequence[PlacedScore], classes: Sequence[str]) -> list[str]:
    """A sentence per score that one user's jobs alone would move."""
    return [
        f"{shown(s.node)}:{s.slot} waits for a witness: one user's jobs say class {s.cls} {s.asked:.2f}"
        for s in stored
        if s.asked is not None and s.cls in classes
    ]


def unmeasured(row: Mapping[str, Value], classes: Sequence[str]) -> bool:
    """No night and no import ever told of this GPU in these classes; what jobs showed is no measurement."""
    return all(row[cls] is None or row[f"{cls}.source"] == "jobs" for cls in classes)


def places_of(cluster: Cluster) -> dict[tuple[str, int], str]:
    """(node, slot) -> model of each GPU that Slurm tells of."""
    rows, slots = np.nonzero(cluster.gpu_exists)
    models = [cluster.models[kind] for kind in cluster.gpu_model[rows, slots].tolist()]
    names = [cluster.node_names[row] for row in rows.tolist()]
    return dict(zip(zip(names, slots.tolist(), strict=True), models, strict=True))


OUTLIER_FIELDS = (
    "class", "node", "slot", "uuid", "score", "ci_low", "ci_high", "nights", "runs", "stalls", "node_part", "age_days",
)  # fmt: skip


def outlier_rows(stored: Sequence[PlacedScore], classes: Sequence[str], now: float) -> list[dict[str, Value]]:
    """GPUs that are slow and surely no part of the bulk of their model, the slowest first."""
    groups: dict[tuple[str, str], list[PlacedScore]] = {}
    for score in stored:
        if score.cls in classes:
            groups.setdefault((score.cls, score.model), []).append(score)
    named: list[PlacedScore] = []
    for members in groups.values():
        values = np.array([s.score for s in members])
        low = np.array([s.score if s.ci_low is None else s.ci_low for s in members])
        named += [members[i] for i in np.flatnonzero(outlying(values, low))]
    return [
        {
            "class": s.cls, "node": s.node, "slot": s.slot, "uuid": s.uuid, "score": s.score, "ci_low": s.ci_low,
            "ci_high": s.ci_high, "nights": s.nights, "runs": s.n_runs, "stalls": s.stalls, "node_part": s.node_part,
            "age_days": age_days(s.measured_at, now),
        }
        for s in sorted(named, key=lambda s: -s.score)
    ]  # fmt: skip


def binned_otherwise(table: ScoreTable, stored: Sequence[PlacedScore], cluster: Cluster, by: str) -> ScoreTable:
    """The same scores in other bins: `published` (k-means, K by silhouette) or `intervals` (what can be told apart)."""
    half = np.full(table.score.shape, np.nan)
    classes = {cls: c for c, cls in enumerate(table.classes)}
    for s in stored:
        if s.cls in classes and s.node in cluster.node_index and s.ci_low is not None and s.ci_high is not None:
            half[classes[s.cls], cluster.node_index[s.node], s.slot] = (s.ci_high - s.ci_low) / 2
    bins = np.zeros(table.score.shape, dtype=np.int16)
    for c in range(len(table.classes)):
        known = table.known[c]
        if not known.any():
            continue
        values, doubt = table.score[c][known].astype(np.float64), np.nan_to_num(half[c][known])
        labels = bin_scores(values)[0] if by == "published" else told_apart(values, values - doubt, values + doubt)[0]
        bins[c][known] = labels
    return ScoreTable(table.classes, table.score.copy(), bins, table.known.copy())


BIN_FIELDS = ("class", "bin", "gpus", "mean", "least", "most", "where")


def bin_rows(cluster: Cluster, table: ScoreTable) -> list[dict[str, Value]]:
    """One row per class and bin: how many GPUs count as equal, and where they are."""
    rows: list[dict[str, Value]] = []
    for c, cls in enumerate(table.classes):
        known = table.known[c] & cluster.gpu_exists
        for label in np.unique(table.bins[c][known]):
            members = known & (table.bins[c] == label)
            values = table.score[c][members]
            rows.append(
                {
                    "class": cls,
                    "bin": int(label),
                    "gpus": int(members.sum()),
                    "mean": float(values.mean()),
                    "least": float(values.min()),
                    "most": float(values.max()),
                    "where": _where(cluster, members),
                }
            )
        if unknown := int((cluster.gpu_exists & ~known).sum()):
            places = _where(cluster, cluster.gpu_exists & ~known)
            rows.append(
                {"class": cls, "bin": None, "gpus": unknown, "mean": None, "least": None, "most": None, "where": places}
            )
    return rows


def _where(cluster: Cluster, members: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> str:
    """`n[1-2]:g0,g1 n3:g0`: nodes with the same slots folded."""
    by_slots: dict[tuple[int, ...], list[str]] = {}
    for row in np.flatnonzero(members.any(axis=1)):
        slots = tuple(int(s) for s in np.flatnonzero(members[row]))
        by_slots.setdefault(slots, []).append(cluster.node_names[row])
    return " ".join(f"{fold(nodes)}:{','.join(f'g{s}' for s in slots)}" for slots, nodes in by_slots.items())
