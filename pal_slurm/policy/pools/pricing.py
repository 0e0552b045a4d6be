"""What a GPU of each pool costs those who wait. In: what the users run. Out: prices.

A job that can't be moved keeps what it takes until it ends, so a bad match is paid for by all that come after it.

- The shadow prices are the duals of: as much of the users' mixture of jobs as can be done for ever. At them every
  kind of job has pools where it is cheapest, and a cluster that keeps to those can carry the most.
- What a second of a GPU costs others is its shadow price times the waiting jobs over all GPUs: nothing when none
  waits, everything when many do. What it costs the job itself is the second. So one rule is right at every load:
  a job takes the pool where (1 + price) x seconds is least, or nearly, the wait for a pool that is full included.
"""

from __future__ import annotations

import numpy as np

from pal_slurm.model import FloatArray
from pal_slurm.policy.solving import INFINITY, Columns, LinearProgram, NoAnswer, Optimum, packed

CROWD = 100.0  # times its share of the GPUs a waiting job makes a second dearer: it and all behind it wait for it
NEARLY = 0.1  # dearer than the cheapest, and still taken
MOST_S = 2.0  # for the solver; without an answer all pools cost the same


def shadow_prices(rates: FloatArray, work: FloatArray, gpus: FloatArray) -> FloatArray:
    """(pools,) mean 1 over the GPUs. `rates`: (kinds, pools), `work`: of each kind, on its best GPUs."""
    kinds, pools = rates.shape
    try:
        price = np.abs(for_ever(rates, work, gpus).duals[kinds:])
    except NoAnswer:
        return np.ones(pools)
    paid = float((price * gpus).sum())
    return price * (float(gpus.sum()) / paid) if paid > 0 else np.ones(pools)


def for_ever(rates: FloatArray, work: FloatArray, gpus: FloatArray) -> Optimum:
    """The most work of this mixture that can be done in a second; duals: of the kinds, then of the pools."""
    kinds, pools = rates.shape
    kind, pool = np.nonzero(rates > 0)
    starts, rows, values = packed(
        np.column_stack((kind, kinds + pool)), np.column_stack((rates[kind, pool], np.ones(len(kind))))
    )
    starts = np.append(starts, starts[-1] + kinds).astype(np.int32)
    rows = np.concatenate((rows, np.arange(kinds, dtype=np.int32)))
    values = np.concatenate((values, -work / work.sum()))
    gain = np.append(np.zeros(len(kind)), 1.0)
    lower = np.concatenate((np.zeros(kinds), np.full(pools, -INFINITY)))
    upper = np.concatenate((np.full(kinds, INFINITY), gpus))
    return LinearProgram(Columns(gain, np.full(len(gain), INFINITY), starts, rows, values), lower, upper).solve(MOST_S)
