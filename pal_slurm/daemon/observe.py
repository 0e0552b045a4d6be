"""What jobs really got. In: two snapshots in a row. Out: JobOutcome rows when a GPU job starts and when it ends.

With node precision this is where we learn whether Slurm took the devices that the planner reckoned with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from statistics import median

from pal_slurm.daemon.same import held_to_models
from pal_slurm.model import (
    Cluster,
    Decision,
    Job,
    JobRef,
    Knowledge,
    Placement,
    PoolRules,
    Snapshot,
    predict,
)
from pal_slurm.store import JobOutcome, OutcomeRepo

FEWEST = 20  # ended jobs that tell what share of their limits jobs use
Pins = Mapping[JobRef, Decision]  # what was asked for


def _known(job: Job) -> bool:
    """Its devices on every node are told; a job that completes on a node which stopped answering has none any more."""
    return bool(job.holds) and all(job.holds)


def devices(placement: Placement) -> dict[str, tuple[int, ...]]:
    return dict(zip(placement.nodes, placement.gpus, strict=True))


@dataclass
class Observer:
    outcomes: OutcomeRepo
    _running: set[tuple[int, int, int]] | None = field(default=None)  # job, submit, start
    _limits: dict[tuple[int, int, int], int] = field(default_factory=dict)  # of those whose end we shall see
    _used: deque[float] = field(default_factory=partial(deque, maxlen=500))  # shares of their limits, the last ends'

    @property
    def of_limit(self) -> float | None:
        """The share of their time limits that GPU jobs run, the median since this pald began; None: too few ended."""
        return median(self._used) if len(self._used) >= FEWEST else None

    def recall(self) -> None:
        """For who has seen no job end: what the last ones used, as they were written down."""
        ends = ((got.end - got.start) / got.limit_s for got in self.outcomes.newest(500) if got.end and got.limit_s)
        self._used.extend(min(max(share, 0.0), 1.0) for share in ends)

    def held(self, snapshot: Snapshot, rules: PoolRules) -> Snapshot:
        """Jobs that say pal:same keep to the GPU model of their first start; for a time where none of it is up."""
        return held_to_models(snapshot, self.outcomes.of_jobs, rules.wait_s)

    def record_changes(
        self, running: tuple[Job, ...], cluster: Cluster, knowledge: Knowledge, pins: Pins, now: float
    ) -> int:
        """Write down starts and ends since the last look; how many of each together."""
        if self._running is None:  # starts that an earlier pald wrote down
            self._running = {(kept.job, kept.submit, kept.start) for kept in self.outcomes.running()}
        ours = (
            job for job in running if (job.gpu_job or job.parts) and _known(job)
        )  # also by shards of its user's own
        seen = {(job.id, job.submit, job.start or 0): job for job in ours}
        started = [job for key, job in seen.items() if key not in self._running]
        ended = self._running - seen.keys()
        if started:
            self.outcomes.record([self._outcome(job, cluster, knowledge, pins) for job in started])
        self.outcomes.ended([(job_id, submit) for job_id, submit, _ in sorted(ended)], int(now))
        for job_id, submit, start in ended:
            limit_s = self._limits.pop((job_id, submit, start), None)
            if limit_s:
                self._used.append(min(max(now - start, 0.0) / limit_s, 1.0))
        self._limits |= {key: job.time_limit_s for key, job in seen.items() if job.time_limit_s}
        self._running = set(seen)
        return len(started) + len(ended)

    def _outcome(self, job: Job, cluster: Cluster, knowledge: Knowledge, pins: Pins) -> JobOutcome:
        app = knowledge.apps.get(job.hint.app, job.user)
        pin = pins.get(job.key)
        asked, together = (None, None) if pin is None else (pin.placement, pin.together)
        beside = 1.0 if together is None else together.factor
        got = Placement(job.nodes, job.holds, exact=False)
        sat = set(got.nodes) <= set(cluster.node_index)
        same = None if asked is None else devices(asked) == devices(got)
        return JobOutcome(
            job=job.id,
            submit=job.submit,
            start=job.start or 0,
            cls=app.cls,
            nodes=job.nodes,
            gpus=job.holds,
            task=job.array_task,
            app=job.hint.app,
            as_pinned=same,
            step_time=predict(app, got, cluster, knowledge.scores, beside) if sat else None,
            slurm_step_time=None if pin is None else pin.slurm_step_time,
            user=job.user,
            limit_s=job.time_limit_s,
            named=sha256(job.name.encode("utf-8", "replace")).hexdigest()[:16] if job.name else None,
            shared=bool(job.parts),
            array_id=job.array_id if job.array_task is not None else None,
        )
