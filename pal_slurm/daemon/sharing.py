"""Whether two jobs may have one GPU on this site. In: pal.yaml, the release, slurm.conf. Out: nothing, or why not."""

from __future__ import annotations

from pal_slurm.config import Config
from pal_slurm.slurm.port import Capabilities, SchedulerSetup


def why_no_sharing(config: Config, caps: Capabilities, setup: SchedulerSetup, exact: bool) -> str:
    """Why no two jobs may have one GPU; nothing where they may."""
    if not config.shares_gpus():
        return "sharing.enabled is false in pal.yaml" if not config.sharing.enabled else "pald pins no jobs"
    if not caps.parts:
        return f"Slurm {caps.release} can't be asked for a part of a GPU in its place (from 23.11.5 on it can)"
    if not exact:
        return "pins name nodes only (precision in pal.yaml)"
    if not setup.task_prolog:
        return "slurm.conf names no TaskProlog: without pal's own, steps in such jobs fail"
    return ""
