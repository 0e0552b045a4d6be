"""A workload at a given load. In: jobs, a share of the cluster. Out: the same jobs, submitted closer together or apart.

Load is the work of all jobs on median GPUs with no cost of distance, over what the GPUs could do from the first
submission to the last.
"""

from __future__ import annotations

from dataclasses import replace

from pal_slurm.sim.workload import Work, Workload


def at_load(load: Workload, share: float, n_gpus: int) -> Workload:
    """Submissions are stretched about the first; one job, or all at once, stay as they are."""
    works = load.works
    span = works[-1].submit - works[0].submit
    if span <= 0.0:
        return load
    wanted = sum(work.gpus * _alone_s(work) for work in works) / (share * n_gpus)
    first, factor = works[0].submit, wanted / span

    def stretched(some: tuple[Work, ...], turn: int) -> tuple[Work, ...]:
        return tuple(replace(w, submit=first + (w.submit - first) * factor) for w in some)

    return load.changed(stretched)


def _alone_s(work: Work) -> float:
    return work.steps * min(work.app.base.values(), default=1.0)
