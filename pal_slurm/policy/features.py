"""Slurm feature expressions, as far as we can honour them. In: `a100&rack1`. Out: a mask of nodes, or None."""

from __future__ import annotations

import re

import numpy as np

from pal_slurm.model import BoolArray, Cluster

_NAME = re.compile(r"[A-Za-z0-9_.:=/+-]+")


def feature_mask(text: str, cluster: Cluster) -> BoolArray | None:
    """Nodes that satisfy a plain name, names joined by `&` (or `,`), or names joined by `|`.

    None: brackets, counts, `!` or a mixture. Slurm gives those meanings (one group for all nodes, so many of each)
    that a mask of nodes can't express, so such a job is not pinned.
    """
    text = text.replace(",", "&")
    names = re.split(r"[&|]", text)
    if not all(_NAME.fullmatch(name) for name in names) or ("&" in text and "|" in text):
        return None
    none = np.zeros(cluster.n_nodes, dtype=np.bool_)
    masks = [cluster.feature_masks.get(name, none) for name in names]
    join = np.logical_or if "|" in text else np.logical_and
    return np.asarray(join.reduce(masks), dtype=np.bool_)
