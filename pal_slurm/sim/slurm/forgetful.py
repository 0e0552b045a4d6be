"""What a killed slurmctld has forgotten. In: the controller. Out: its jobs, as it had last written them down."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pal_slurm.sim.slurm.controller import Controller


def forget(c: Controller, saved_s: float) -> None:
    """Requeues of the last `saved_s` never were: those jobs seem to run where they ran."""
    for job in (*c.running.values(), *c.pending.values()):
        if job.told_to_end <= c.now - saved_s or job.ran is None or job.empty:
            continue
        if not job.back:  # its nodes were done with it; should it run again, that is forgotten too
            c.free(job)
            frees = {part: c.nodes[part.row].free for part in job.last}
            if any(part.slots & ~free.slots or part.shards & ~free.open for part, free in frees.items()):
                continue
            for part in job.last:
                c.nodes[part.row].hold(part)
            c.pending.pop(job.record.id, None)
            c.running[job.record.id] = job
        job.starts += 1
        job.forgets()
