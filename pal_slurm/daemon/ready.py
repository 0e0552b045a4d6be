"""What slurm.conf should say and does not. In: SchedulerSetup, Config. Out: one sentence each, with the line to add."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.config import Config
from pal_slurm.slurm.port import SchedulerSetup


def warnings(setup: SchedulerSetup, config: Config) -> Iterator[str]:
    if config.actuator == "exclude":
        return  # asks nothing of slurm.conf
    if not setup.disable_job_shrink:
        yield (
            "node pins are refused: without disable_job_shrink a pin that comes late can shrink a running job; "
            "add to slurm.conf: SchedulerParameters=disable_job_shrink"
        )
    if not setup.accrue_always:
        yield "leased jobs gather no age priority; add to slurm.conf: PriorityFlags=ACCRUE_ALWAYS"
    if config.actuator != "shadow" and "lua" not in setup.plugins:
        yield "no job gets a lease; add to slurm.conf: JobSubmitPlugins=lua (and install job_submit.lua beside it)"
