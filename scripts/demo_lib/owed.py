"""What accounts were owed, and what they had. In: what each job took, arm by arm. Out: a table.

The yardstick is the same for all arms, whatever they go by: at each moment the GPUs are divided among the accounts that
have jobs there, in equal parts, each job at its rate on each model (`gavel/hierarchical`). Only moments count in which
an account has a job that waits; GPU seconds are those of each job's best model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from rich.table import Table

from pal_slurm.policy.entitlement.division import Division
from pal_slurm.policy.entitlement.water_filling import Entities, hierarchical

from .run import Ran


def by_account(ran: Mapping[str, Sequence[Ran]], gpus: Mapping[str, int], model_of: Mapping[str, str]) -> Table:
    shown = Table(title="GPU seconds owed to accounts while a job of theirs waited, and had", title_justify="left")
    for head in ("", "account (jobs)", "avg JCT", "owed", "had", "had of owed"):
        shown.add_column(head, justify="left" if head in ("", "account (jobs)") else "right")
    for name, jobs in ran.items():
        owed, had = owed_and_had(jobs, gpus, model_of)
        for number, account in enumerate(sorted({r.job.account for r in jobs})):
            jct = [r.jct_s for r in jobs if r.job.account == account]
            due, got = owed[account], had[account]
            mean, part = f"{sum(jct) / len(jct):.1f} s", f"{got / due:.2f}" if due else "-"
            shown.add_row("" if number else name, f"{account} ({len(jct)})", mean, f"{due:.0f}", f"{got:.0f}", part)
    shown.caption = "each account is owed the same part, whatever the number of its jobs"
    return shown


def owed_and_had(
    jobs: Sequence[Ran], gpus: Mapping[str, int], model_of: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """By account. `gpus`: of each model; `model_of`: by node."""
    owed: dict[str, float] = defaultdict(float)
    had: dict[str, float] = defaultdict(float)
    times = sorted({time for r in jobs for time in (r.submitted, r.ended - r.ran_s, r.ended)})
    for begin, end in pairwise(times):
        here = [r for r in jobs if r.submitted <= begin < r.ended]
        waiting = {r.job.account for r in here if begin < r.ended - r.ran_s}
        if not waiting:
            continue
        for r, rate in zip(here, _due(here, gpus), strict=True):
            if r.job.account in waiting:
                owed[r.job.account] += rate * r.job.gpus * (end - begin)
                runs = begin >= r.ended - r.ran_s
                had[r.job.account] += runs * _rates(r, gpus)[model_of[r.places[0][0]]] * r.job.gpus * (end - begin)
    return owed, had


def _due(here: Sequence[Ran], gpus: Mapping[str, int]) -> Sequence[float]:
    """The rate that each is owed, over its best."""
    accounts = sorted({r.job.account for r in here})
    division = Division(
        np.array([list(_rates(r, gpus).values()) for r in here]),
        np.array(list(gpus.values()), dtype=float),
        np.array([float(r.job.gpus) for r in here]),
        entity=np.array([accounts.index(r.job.account) for r in here]),
    )
    found: list[float] = hierarchical(division, Entities(np.ones(len(accounts)))).rate.tolist()
    return found


def _rates(r: Ran, gpus: Mapping[str, int]) -> dict[str, float]:
    bases = dict(r.job.bases)
    return {model: min(bases.values()) / bases[model] for model in gpus}
