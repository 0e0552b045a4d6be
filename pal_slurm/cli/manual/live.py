"""What a TAB may ask Slurm: ids of jobs, names of nodes. In: a metavar of an option or argument. Out: a shell command.

Slurm's own client is as quick as it is; ours is not started. Without a Slurm, or with one that is silent, nothing is
offered and nothing is said.
"""

from __future__ import annotations

_JOBS = "timeout 2 squeue -h -o %i 2>/dev/null"
_NODES = "timeout 2 sinfo -h -N -o %N 2>/dev/null"
_ASKED = {"JOBID": _JOBS, "JOB": _JOBS, "UUID|NODE:SLOT": _NODES, "NODES": _NODES}


def asked(metavar: str) -> str:
    """Empty: nothing that Slurm would know."""
    return _ASKED.get(metavar.strip("[]. "), "")
