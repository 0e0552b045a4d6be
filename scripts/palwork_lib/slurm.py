"""What palwork knows of Slurm. In: the environment of a step. Out: its GPUs, the job's number as scontrol takes it."""

from __future__ import annotations

import os
import re


def of_slurm(name: str, default: str = "") -> str:
    return os.environ.get(f"SLURM_{name}") or default


def job() -> str:
    """As scontrol takes it: the last task of an array has the array's own number as its job id."""
    array, task = of_slurm("ARRAY_JOB_ID"), of_slurm("ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else of_slurm("JOB_ID")


def devices() -> list[str]:
    """The slots of this node that the step got: Slurm gives device indices, in slot order."""
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        given = os.environ.get(name, "")
        if re.fullmatch(r"\d+(,\d+)*", given):
            return [f"g{i}" for i in given.split(",")]
    return []
