"""What jobs really got. In: two snapshots in a row. Out: JobOutcome rows when a GPU job starts and when it ends.

With node precision this is where we learn whether Slurm took the devices that the planner reckoned with. And it is
where run times are learned: each job that ends teaches how long jobs like it run, and one that had whole nodes
teaches that wide jobs are usual. One that was cancelled, failed, was preempted or was lost with its node teaches at
most that jobs like it run for longer. Where Slurm does not tell how a job ended, it ran to its end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pal_slurm.daemon.same import held_to_models
from pal_slurm.model import (
    Cluster,
    Decision,
    Job,
    JobRef,
    Knowledge,
    Placement,
    PoolRules,
    RunTimes,
    Snapshot,
    WideJobs,
    named,
    predict,
)
from pal_slurm.store import JobOutcome, OutcomeRepo

MOST_GAP_S = 60.0  # a job that was last seen so long ago tells little, unless it had run for longer
RECALLED = 4_000  # ended runs that an earlier pald wrote down,
MOST_ASKED = 20  # jobs that have left the queue, at a look
RECALLED_S = 30 * 86_400.0  # since then
Pins = Mapping[JobRef, Decision]  # what was asked for
Key = tuple[int, int, int]  # job, submit, start


def _known(job: Job) -> bool:
    """Its devices on every node are told; a job that completes on a node which stopped answering has none any more."""
    return bool(job.holds) and all(job.holds)


def devices(placement: Placement) -> dict[str, tuple[int, ...]]:
    return dict(zip(placement.nodes, placement.gpus, strict=True))


class _Run(NamedTuple):
    """One run of a job, as it was seen last."""

    got: JobOutcome
    job: Job | None  # None: not seen yet, an earlier pald wrote down that it started
    seen: float


@dataclass
class Observer:
    outcomes: OutcomeRepo
    run_times: RunTimes = field(default_factory=RunTimes)
    wide: WideJobs = field(default_factory=WideJobs)
    _running: dict[Key, _Run] | None = field(default=None)
    _earlier: dict[int, tuple[int, float]] = field(default_factory=dict)  # of jobs that were requeued: runs, seconds
    _recalled: bool = field(default=False)
    _here: tuple[int, ...] = ()  # as of the last look: jobs of which we want to know how they end
    _over: frozenset[Key] | None = field(default=None)  # as of the last look; None: there was none

    def recall(self, snapshot: Snapshot, knowledge: Knowledge) -> None:
        """For who has seen no job end: how long the last ones ran, as it was written down."""
        if self._recalled:
            return
        self._recalled = True
        runs: dict[int, list[JobOutcome]] = defaultdict(list)
        for got in self.outcomes.lately(snapshot.taken - RECALLED_S, RECALLED):
            runs[got.job].append(got)
        here = {job.id for job in (*snapshot.pending, *snapshot.running)}
        ended = ((max(g.end or 0 for g in all_of), all_of) for job, all_of in runs.items() if job not in here)
        for at, all_of in sorted(ended, key=lambda told: told[0]):  # what ended last counts most
            self._count_wide(all_of[-1], at, None, snapshot.cluster)
            ran_s = sum(
                _on_best(got, (got.end or got.start) - got.start, knowledge, snapshot.cluster) for got in all_of
            )
            self._teach(all_of[0], ran_s, knowledge, cut=max(all_of, key=lambda got: got.start).cut)

    def held(self, snapshot: Snapshot, rules: PoolRules) -> Snapshot:
        """Jobs that say pal:same keep to the GPU model of their first start; for a time where none of it is up."""
        return held_to_models(snapshot, self.outcomes.of_jobs, rules.wait_s)

    def vanished(self, snapshot: Snapshot) -> list[int]:
        """Jobs of the last look that Slurm tells nothing of unless it is asked: some of them, who waited first."""
        known, jobs = self._here, (*snapshot.pending, *snapshot.running)
        self._here = tuple(job.id for job in jobs if job.gpu_job and job.array_id is None)
        here = {job.id for job in jobs}
        return [job for job in known if job not in here and job not in snapshot.ended][:MOST_ASKED]

    def record_changes(self, snapshot: Snapshot, knowledge: Knowledge, pins: Pins) -> int:
        """Write down starts and ends since the last look; how many of each together."""
        now = snapshot.taken
        if self._running is None:  # starts that an earlier pald wrote down
            self._running = {(got.job, got.submit, got.start): _Run(got, None, now) for got in self.outcomes.running()}
            self.recall(snapshot, knowledge)
        ours = (
            job for job in snapshot.running if (job.gpu_job or job.parts) and _known(job)
        )  # also by shards of its user's own
        seen = {(job.id, job.submit, job.start or 0): job for job in ours}
        started = {
            key: _outcome(job, snapshot, knowledge, pins) for key, job in seen.items() if key not in self._running
        }
        ended = {key: run for key, run in self._running.items() if key not in seen}
        if started:
            self.outcomes.record(started.values())
        cut = {(job.id, job.submit, job.start or 0) for job in snapshot.over if job.cut}
        self.outcomes.ended([key[:2] for key in sorted(ended)], int(now), {key[:2] for key in cut})
        gots = {key: run.got for key, run in self._running.items()} | started
        self._running = {key: _Run(gots[key], job, now) for key, job in seen.items()}
        self._learn(ended, cut, snapshot, knowledge)
        self._learn_unseen(snapshot, knowledge, gots)
        return len(started) + len(ended)

    def _learn(self, ended: Mapping[Key, _Run], cut: Collection[Key], snapshot: Snapshot, knowledge: Knowledge) -> None:
        """A job that was requeued counts once that it is over, for all its runs; if one was not seen, not at all."""
        if not ended and not self._earlier:
            return
        here = {job.id for jobs in (snapshot.pending, snapshot.running) for job in jobs if not job.completing}
        for key, run in ended.items():
            if run.job is None:
                continue
            runs, seconds = self._earlier.pop(run.job.id, (0, 0.0))
            end = _end(run, run.job, snapshot)
            if end is None:
                continue
            seconds += _on_best(run.got, max(0.0, end - run.got.start), knowledge, snapshot.cluster)
            if run.job.id in here:
                self._earlier[run.job.id] = (runs + 1, seconds)
            elif runs == run.job.restarts:
                self._count_wide(run.got, end, run.job, snapshot.cluster)
                self._teach(run.got, seconds, knowledge, cut=key in cut)
        self._earlier = {job: told for job, told in self._earlier.items() if job in here}

    def _learn_unseen(self, snapshot: Snapshot, knowledge: Knowledge, seen: Collection[Key]) -> None:
        """Jobs that began and ended between two looks: the shortest of all."""
        known, over = self._over, {(job.id, job.submit, job.start or 0): job for job in snapshot.over}
        self._over = frozenset(over)
        if known is None:
            return
        for key, job in over.items():
            if key not in known and key not in seen and job.start and job.end and job.user and not job.restarts:
                app = job.hint.app or knowledge.apps.get(None, job.user).name
                limit_s = None if job.time_limit_s is None else float(job.time_limit_s)
                ran_s = float(job.end - job.start)
                self.run_times.ended(job.user, app, named(job.name), limit_s, ran_s, cut=job.cut)
                gpus = job.shape.least_gpus if job.shape else 0
                self.wide.ended(float(job.end), job.nodes, gpus, snapshot.cluster, job)

    def _count_wide(self, got: JobOutcome, end: float, job: Job | None, cluster: Cluster) -> None:
        if not got.shared:
            self.wide.ended(end, got.nodes, sum(map(len, got.gpus)), cluster, job)

    def _teach(self, got: JobOutcome, ran_s: float, knowledge: Knowledge, *, cut: bool) -> None:
        if got.user and not got.shared:  # with a part of a GPU, others decide too
            app = got.app or knowledge.apps.get(None, got.user).name
            self.run_times.ended(got.user, app, got.named or "", got.limit_s, ran_s, cut=cut)


def _end(run: _Run, job: Job, snapshot: Snapshot) -> float | None:
    """As Slurm tells it; else it ran at least until it was seen last. None: that says too little."""
    told = snapshot.ended.get(job.id) or (job.end if job.completing else None)
    if told:
        return told
    long_ago = snapshot.taken - run.seen > max(MOST_GAP_S, run.seen - run.got.start)
    return None if long_ago else run.seen


def _on_best(got: JobOutcome, ran_s: float, knowledge: Knowledge, cluster: Cluster) -> float:
    """So long it would have run on the GPU model that is best for its application.

    What others learn from it goes by the class that its user's jobs have shown, not by a tag.
    """
    app, step = knowledge.apps.get(got.app, got.user), got.step_time
    if step and app.proven != app.cls and set(got.nodes) <= set(cluster.node_index):
        shown = Placement(got.nodes, got.gpus, exact=False)
        step = predict(replace(app, cls=app.proven), shown, cluster, knowledge.scores)
    return ran_s * min(app.base.values(), default=1.0) / step if step else ran_s


def _outcome(job: Job, snapshot: Snapshot, knowledge: Knowledge, pins: Pins) -> JobOutcome:
    cluster, app = snapshot.cluster, knowledge.apps.get(job.hint.app, job.user)
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
        named=named(job.name) or None,
        shared=bool(job.parts),
        array_id=job.array_id if job.array_task is not None else None,
    )
