"""One odd job keeps nobody else from being placed. In: a snapshot, and what plans it. Out: a plan.

Where planning fails, the job that brings it about is found by halves, from outside, so the fault may be anywhere in the
planner. Is it ours, then it goes plain at once, like one whose pin was refused; it is planned with no more until it has
left the queue. What Slurm gives it is not reckoned with: a pin that meets it is taken back and made anew, as any other.
A fault that is no single job's ends the cycle, as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pal_slurm.daemon.entries import Entries
from pal_slurm.daemon.faults import Faults
from pal_slurm.errors import PalError
from pal_slurm.model import Action, Decision, Job, Reason, Snapshot
from pal_slurm.policy import Plan

log = logging.getLogger("pald")
MOST_TRIES = 100  # plans of a part of the queue; one odd job of 10,000 takes 28
Planning = Callable[[Snapshot], Plan]


def planned(view: Snapshot, planning: Planning, entries: Entries, faults: Faults) -> Plan:
    """The plan for all that planning does not fail about, and what becomes of those others that are ours."""
    rest = _without(view, entries.odd)
    try:
        made = planning(rest).behind(())  # worked out whole, so that it fails here if it does
    except (PalError, MemoryError):
        raise
    except Exception as error:
        if not (found := _found(rest, planning)):
            raise
        made = planning(_without(rest, found.__contains__))
        for job in found:
            entries[job.key].odd = True
        said, named = faults.happened("deciding", error), ", ".join(str(job.id) for job in found[:10])
        log.error("%s; only with job %s: Slurm starts it as it was submitted, others are placed", said, named)
    odd = [job for job in view.pending if entries.odd(job) and job.waits_for_us(view.taken)]
    tasks = [(job, task) for job in odd for task in job.array_tasks or (job.array_task,)]
    plain = [Decision(job.id, task, Action.PLAIN, Reason.PALD_FAULT) for job, task in tasks]
    return made.behind(plain)


def _found(view: Snapshot, planning: Planning) -> list[Job]:
    """The jobs each of which makes planning fail by itself; none where it takes several, or too many do.

    Waiting jobs are tried without any that run; running ones beside all that wait, for there is no plan for nobody.
    """
    if _fails(replace(view, pending=(), running=()), planning):
        return []
    found: list[Job] = []
    waiting = _halved(view.pending, lambda some: _fails(replace(view, pending=some, running=()), planning), found)
    rest = tuple(job for job in view.pending if job not in found)
    running = waiting and _halved(
        view.running, lambda some: _fails(replace(view, pending=rest, running=some), planning), found
    )
    return found if running else []


def _halved(jobs: tuple[Job, ...], fails: Callable[[tuple[Job, ...]], bool], found: list[Job]) -> bool:
    """Add those jobs to `found` each of which fails by itself; False: that takes too many tries."""
    parts = [jobs]
    for _ in range(MOST_TRIES):
        if not parts:
            return True
        part = parts.pop()
        if not part or not fails(part):
            continue
        if len(part) == 1:
            found += part
        else:
            parts += [part[len(part) // 2 :], part[: len(part) // 2]]
    return False


def _without(view: Snapshot, odd: Callable[[Job], bool]) -> Snapshot:
    pending, running = (tuple(job for job in jobs if not odd(job)) for jobs in (view.pending, view.running))
    return replace(view, pending=pending, running=running)


def _fails(view: Snapshot, planning: Planning) -> bool:
    try:
        planning(view).behind(())
    except (PalError, MemoryError):
        raise
    except Exception:
        return True
    return False
