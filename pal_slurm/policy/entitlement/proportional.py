"""`proportional`: everybody's time is spread over the pools as the GPUs are, as if he were alone."""

from __future__ import annotations

import numpy as np

from pal_slurm.policy.entitlement.division import Division, Shares


def proportional(division: Division) -> Shares:
    share = np.tile(division.gpus / max(float(division.gpus.sum()), 1.0), (division.n_jobs, 1))
    rate = (share * division.rates).sum(axis=1)
    return Shares(share, rate, float((rate / division.equal).min(initial=np.inf)))
