"""`max-sum`: as many steps a second in all as can be, whoever makes them; and with prices, `cost`: for the money."""

from __future__ import annotations

import numpy as np

from pal_slurm.policy.entitlement.division import Division, Shares, equals
from pal_slurm.policy.entitlement.level import CommonLevel


def max_sum(division: Division) -> Shares:
    merged = equals(division)
    level = CommonLevel(division, merged, gain=np.ones(len(merged.first)))
    answer = level.solve(np.zeros(len(merged.first)))
    return level.shares(answer, answer.value)
