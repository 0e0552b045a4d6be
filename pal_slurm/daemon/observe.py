"""What jobs really got. In: two snapshots in a row. Out: JobOutcome rows when a GPU job starts and when it ends.

With node precision this is where we learn whether Slurm took the devices that the planner reckoned with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pal_slurm.model import Cluster, Job, JobRef, Knowledge, Placement, predict
from pal_slurm.store import JobOutcome, OutcomeRepo

Pins = Mapping[JobRef, tuple[Placement, float | None]]  # what was asked for, Slurm's own step time


def _known(job: Job) -> bool:
    """Its devices on every node are told; a job that completes on a node which stopped answering has none any more."""
    return bool(job.gpus) and all(job.gpus)


def devices(placement: Placement) -> dict[str, tuple[int, ...]]:
    return dict(zip(placement.nodes, placement.gpus, strict=True))


@dataclass
class Observer:
    outcomes: OutcomeRepo
    _running: set[tuple[int, int, int]] | None = field(default=None)  # job, submit, start

    def record_changes(
        self, running: tuple[Job, ...], cluster: Cluster, knowledge: Knowledge, pins: Pins, now: float
    ) -> int:
        """Write down starts and ends since the last look; how many of each together."""
        if self._running is None:  # starts that an earlier pald wrote down
            self._running = {(kept.job, kept.submit, kept.start) for kept in self.outcomes.running()}
        seen = {(job.id, job.submit, job.start or 0): job for job in running if job.gpu_job and _known(job)}
        started = [job for key, job in seen.items() if key not in self._running]
        ended = self._running - seen.keys()
        if started:
            self.outcomes.record([self._outcome(job, cluster, knowledge, pins) for job in started])
        for job_id, submit, _ in ended:
            self.outcomes.ended(job_id, submit, int(now))
        self._running = set(seen)
        return len(started) + len(ended)

    def _outcome(self, job: Job, cluster: Cluster, knowledge: Knowledge, pins: Pins) -> JobOutcome:
        app = knowledge.apps.get(job.hint.app)
        asked, slurm_step_time = pins.get(job.key, (None, None))
        got = Placement(job.nodes, job.gpus, exact=False)
        sat = set(got.nodes) <= set(cluster.node_index)
        same = None if asked is None else devices(asked) == devices(got)
        return JobOutcome(
            job=job.id,
            submit=job.submit,
            start=job.start or 0,
            cls=app.cls,
            nodes=job.nodes,
            gpus=job.gpus,
            task=job.array_task,
            app=job.hint.app,
            as_pinned=same,
            step_time=predict(app, got, cluster, knowledge.scores) if sat else None,
            slurm_step_time=slurm_step_time,
            user=job.user,
        )
