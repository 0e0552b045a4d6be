"""Whose jobs go on where they stopped. In: past runs, what each job ran and on how many GPUs. Out: (user, application).

A job that was requeued and resumed needed less in its last run than one that was never requeued, and about as much in
all its runs together. So the same work has to be known: jobs of this user and application on as many GPUs that ran
through, and took about equally long. What began anew, or failed, speaks against: one such job is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pal_slurm.model import PastRun, RunEnd

ENOUGH = 3  # jobs that resumed, and jobs that ran through
ALIKE = 1.5  # the longest that ran through over the shortest
WORTH = 0.2  # of the whole: a run that ended sooner tells nothing
SAVED = 0.5  # of what the earlier runs did, at least
Kind = tuple[str, str, int]  # user, application, GPUs


def resumed(runs: Iterable[PastRun], what: Mapping[int, tuple[str, int]]) -> frozenset[tuple[str, str]]:
    """`what`: application and GPUs by job."""
    of_job: dict[tuple[int, str], list[PastRun]] = defaultdict(list)
    for run in runs:
        if run.job in what:
            of_job[run.job, run.user].append(run)
    through: dict[Kind, list[float]] = defaultdict(list)
    again: dict[Kind, list[Sequence[PastRun]]] = defaultdict(list)
    for (job, user), of in of_job.items():
        kind = (user, *what[job])
        if len(of) > 1:
            again[kind].append(of)
        elif of[0].end is RunEnd.COMPLETED:
            through[kind].append(of[0].seconds)
    said: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for kind, jobs in again.items():
        whole = _whole(through.get(kind, []))
        said[kind[:2]] += [word for of in jobs if (word := _went_on(of, whole)) is not None]
    return frozenset(pair for pair, words in said.items() if len(words) >= ENOUGH and all(words))


def _whole(seconds: Sequence[float]) -> float | None:
    """What the work takes in one go; none: nobody can tell."""
    known = len(seconds) >= ENOUGH and 0 < max(seconds) <= ALIKE * min(seconds)
    return median(seconds) if known else None


def _went_on(runs: Sequence[PastRun], whole: float | None) -> bool | None:
    """None: it tells nothing."""
    *earlier, last = runs
    if any(run.end is not RunEnd.REQUEUED for run in earlier) or last.end in (RunEnd.OTHER, RunEnd.REQUEUED):
        return None
    if last.end is RunEnd.FAILED:
        return False
    done = sum(run.seconds for run in earlier)
    if whole is None or done < WORTH * whole:
        return None
    return last.seconds <= whole - SAVED * min(done, whole) and done + last.seconds >= 0.8 * whole
