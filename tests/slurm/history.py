"""Jobs that ended before a pald starts. In: how long they ran. Out: rows of its database, as written by an earlier one.

What pald knows of run times it learns from jobs that have ended; a test can't wait until some have run for hours.
"""

from __future__ import annotations

import time
from dataclasses import replace

from pal_slurm.model import named
from pal_slurm.store import JobOutcome, OutcomeRepo, open_store
from tests.slurm.pald import Pald

NAME = "wrap"  # of each job that a test submits as a command
FIRST_ID = 9_000_000  # no job of these clusters gets so far
JOBS = 40  # so many that those which the test itself cancels after some seconds count little


def jobs_ran(pald: Pald, ran_s: int, app: str | None = None, user: str = "root", limit_s: int | None = None) -> None:
    """`app`: None: they named none. `limit_s`: of time, as the test's own jobs have it."""
    end = int(time.time()) - 60
    store = open_store(f"sqlite:///{pald.database}")
    try:
        outcomes = OutcomeRepo(store, pald.cluster_name)
        first = FIRST_ID + len(outcomes.since(0))
        row = JobOutcome(0, end - ran_s, end - ran_s, "A", ("n1",), ((0,),), end=end, app=app, user=user)
        row = replace(row, limit_s=limit_s, named=named(NAME))
        outcomes.record(replace(row, job=job) for job in range(first, first + JOBS))
    finally:
        store.close()
