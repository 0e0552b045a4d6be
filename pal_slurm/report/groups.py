"""Scores by node and by rack. In: stays, the table that pald plans with, racks of nodes. Out: one row per group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from pal_slurm.model import Cluster, ScoreTable
from pal_slurm.report.text import Value, fold, natural
from pal_slurm.store import Stay

PARTS = ("", ".worst", ".worst_at", ".known")
_RACK = re.compile(r"rack[0-9]+")


def group_fields(kind: str, classes: Sequence[str]) -> list[str]:
    """`kind`: node or rack."""
    return [kind, "nodes", "gpus", *(f"{cls}{part}" for cls in classes for part in PARTS)]


def group_rows(
    stays: Sequence[Stay], cluster: Cluster, table: ScoreTable, kind: str, group_of: Mapping[str, str]
) -> list[dict[str, Value]]:
    """Means and slowest GPUs over the scores that count; `group_of`: node -> its group's name."""
    groups: dict[str | None, list[Stay]] = {}
    for stay in stays:
        groups.setdefault(group_of.get(stay.node), []).append(stay)
    return [
        _row(kind, name, members, cluster, table)
        for name, members in sorted(groups.items(), key=lambda item: (item[0] is None, natural(item[0] or "")))
    ]


def _row(kind: str, name: str | None, members: Sequence[Stay], cluster: Cluster, table: ScoreTable) -> dict[str, Value]:
    at = np.array([cluster.node_index[stay.node] for stay in members]), np.array([stay.slot for stay in members])
    row: dict[str, Value] = {kind: name, "gpus": len(members)}
    if kind != "node":  # there `nodes` is what rows are folded into
        row["nodes"] = fold(stay.node for stay in members)
    for c, cls in enumerate(table.classes):
        known = np.flatnonzero(table.known[c][at])
        scores = table.score[c][at][known]
        worst = members[int(known[scores.argmax()])] if known.size else None
        row[cls] = float(np.exp(np.log(scores).mean())) if worst else None
        row[f"{cls}.worst"] = float(scores.max()) if worst else None
        row[f"{cls}.worst_at"] = f"{worst.node}:{worst.slot}" if worst else None
        row[f"{cls}.known"] = int(known.size)
    return row


def rack_names(cluster: Cluster) -> Mapping[str, str]:
    """Node -> rack: the node feature (rack7) where all nodes of a rack share one, else Slurm's number of it."""
    shared: dict[int, frozenset[str]] = {}
    for rack, features in zip(cluster.rack.tolist(), cluster.features, strict=True):
        named = frozenset(filter(_RACK.fullmatch, features))
        shared[rack] = shared[rack] & named if rack in shared else named
    names = {rack: next(iter(named)) if len(named) == 1 else str(rack) for rack, named in shared.items()}
    return {node: names[rack] for node, rack in zip(cluster.node_names, cluster.rack.tolist(), strict=True)}
