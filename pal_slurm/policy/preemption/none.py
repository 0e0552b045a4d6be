"""`none`: what runs, runs on."""

from __future__ import annotations

from collections.abc import Sequence

from pal_slurm.model import Job
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.seams import preemptions


class NoPreemption:
    def victims(self, job: Job, floor: Floor, running: Sequence[Job]) -> tuple[Job, ...]:
        return ()


preemptions.register("none", lambda _: NoPreemption())
