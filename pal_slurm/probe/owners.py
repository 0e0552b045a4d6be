"""Which job a process belongs to. In: /proc. Out: a job's number, as the kernel's control groups tell it.

A process can't leave the group that slurmstepd put it in, so the answer can't be forged by the job.
Slurm's paths: `/slurm/uid_1000/job_77/step_0` (cgroup v1), `/system.slice/slurmstepd.scope/job_77/step_0` (v2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_JOB = re.compile(r"/job_([0-9]{1,10})(?=/|$)", re.MULTILINE)


def job_of(pid: int, proc: Path) -> str | None:
    try:
        text = (proc / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return None
    found = set(_JOB.findall(text))
    return found.pop() if len(found) == 1 else None


def owner(pids: Iterable[int] | None, proc: Path) -> str | None:
    """The one job whose processes compute on a GPU; None where there is none, or several share it."""
    jobs = {job for pid in pids or () if (job := job_of(pid, proc)) is not None}
    return jobs.pop() if len(jobs) == 1 else None
