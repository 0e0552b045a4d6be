"""`isolated`: everybody has 1/n of every pool, and never more than a whole of his time."""

from __future__ import annotations

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.policy.entitlement.division import Division, Shares


def isolated(division: Division) -> Shares:
    share = isolated_share(division)
    rate = (share * division.rates).sum(axis=1)
    return Shares(share, rate, float((rate / division.equal).min(initial=np.inf)))


def isolated_share(division: Division) -> FloatArray:
    """(jobs, pools)"""
    share: FloatArray = division.gpus / (max(division.n_jobs, 1) * division.sizes[:, None])
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0))
