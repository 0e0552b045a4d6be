"""Which job a process belongs to. In: /proc. Out: a job's number, as the kernel's control groups tell it.

A process can't leave the group that slurmstepd put it in, so the answer can't be forged by the job.
Slurm's paths: `/slurm/uid_1000/job_77/step_0` (cgroup v1), `/system.slice/slurmstepd.scope/job_77/step_0` (v2).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

_DEEPEST = 64  # processes between the one that reports and slurmstepd
_JOB = re.compile(r"/job_([0-9]{1,10})(?=/|$)", re.MULTILINE)


def job_of(pid: int, proc: Path) -> str | None:
    try:
        text = (proc / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return None
    found = set(_JOB.findall(text))
    return found.pop() if len(found) == 1 else None


def is_of(pid: int, uid: int, proc: Path) -> str | None:
    """When that process began, in the kernel's ticks; None: it is not there, or not that user's."""
    try:
        users = re.search(r"^Uid:([0-9\t ]+)$", (proc / str(pid) / "status").read_text(errors="replace"), re.MULTILINE)
        # The name in brackets may hold anything
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    mine = users is not None and str(uid) in users[1].split() and len(fields) > 19
    return fields[19] if mine else None


def began(pid: int, proc: Path) -> float | None:
    """When the job step of a process began: its oldest ancestor within the job; None: the kernel does not tell."""
    job, ticks = job_of(pid, proc), None
    for _ in range(_DEEPEST):
        if job is None or job_of(pid, proc) != job:
            break
        try:
            # The name in brackets may hold anything
            fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            parent, ticks = int(fields[1]), int(fields[19])
        except (OSError, ValueError, IndexError):
            break
        pid = parent
    boot = _booted(proc)
    return None if ticks is None or boot is None else boot + ticks / os.sysconf("SC_CLK_TCK")


def _booted(proc: Path) -> float | None:
    try:
        lines = (proc / "stat").read_text().splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    except (OSError, ValueError, IndexError):
        return None


def user_of(pids: Iterable[int] | None, proc: Path) -> int | None:
    """Whose processes these are, if they are one user's."""
    users = set()
    for pid in pids or ():
        with contextlib.suppress(OSError):
            users.add((proc / str(pid)).stat().st_uid)
    return users.pop() if len(users) == 1 else None


def owner(pids: Iterable[int] | None, proc: Path) -> str | None:
    """The one job whose processes compute on a GPU; None where there is none, or several share it."""
    jobs = {job for pid in pids or () if (job := job_of(pid, proc)) is not None}
    return jobs.pop() if len(jobs) == 1 else None
