"""What need not wait for us. In: the snapshot, what is known, what a cycle wrote. Out: jobs to let go, lines for lua.

A lease costs its job up to a second: slurmctld looks at a released job only once a second. It is worth that where we
may place the job better than Slurm does. So job_submit.lua lets a job pass without a lease, by what stands beside our
sign of life (alive.py), where it would gain less than that:

- `pass all`: nothing tells one GPU from another, so only jobs whose span may differ need us.
- `pass brief`: GPUs differ, but jobs of these users and applications are over too soon to gain by better ones.

Jobs of both sorts that wait under a lease are let go in their order, and wait in Slurm's own queue. Nobody is
overtaken: nothing passes while a job that could start waits under a lease. lua itself stops it the moment that it gives
one, until a snapshot that was taken later says again that nobody waits.
"""

from __future__ import annotations

import pwd
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from pal_slurm.config import Config
from pal_slurm.daemon.leases.alive import is_name
from pal_slurm.model import (
    Action,
    App,
    BoolArray,
    Decision,
    EditKind,
    EditResult,
    Job,
    JobRef,
    Knowledge,
    Outcome,
    Reason,
    RunEstimate,
    RunTimes,
    Snapshot,
    base_of,
    until,
)
from pal_slurm.policy import Composition
from pal_slurm.policy.order.slurm import SlurmOrder
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.turn import Turn, turn_of

MARGIN = 0.02  # GPUs that differ by half of that are alike
DELAY_S = 1.0  # what a lease costs its job
FEWEST = 20  # jobs of a user and application that have ended, before they pass
MOST_RUN_S = 300.0  # a job that runs for longer is looked at no further: it gains by a third of a percent
MOST_KINDS, MOST_OF_USER = 120, 20  # lua reads the file for each job
HOLDS_S = 3.0  # beyond the next cycle
SETTLED_S = 2.0  # job_submit.lua believes only in a snapshot that is so much younger than its last lease
_STARTS = (EditKind.PIN, EditKind.PLAIN)


class StepSpread(NamedTuple):
    """Step times on the GPUs that can be used, over the step time on the best model."""

    best: float
    mean: float
    worst: float


@lru_cache(maxsize=4096)
def uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):  # a UID without a name
        return None


@dataclass(frozen=True)
class Known:
    """One cycle's view."""

    view: Snapshot
    knowledge: Knowledge
    composition: Composition
    config: Config
    run_times: RunTimes = field(default_factory=RunTimes)
    _spreads: dict[tuple[str, tuple[tuple[str, float], ...]], StepSpread] = field(default_factory=dict, init=False)
    alike: bool = field(init=False)  # nothing tells one GPU from another, and the order is Slurm's own

    def __post_init__(self) -> None:
        object.__setattr__(self, "alike", self._on and self._alike())

    @property
    def _on(self) -> bool:
        """Other orders and placements are somebody's wish, whatever the scores say."""
        c = self.composition
        ours = isinstance(c.order, SlurmOrder) and isinstance(c.placement, Ranking) and c.placement.scores
        return self.config.lease.let_through and self.config.actuator != "shadow" and ours

    def _alike(self) -> bool:
        cluster, usable = self.view.cluster, self._usable
        if not usable.any():
            return False
        values = self.knowledge.scores.as_bins[:, usable]
        if float((values.max(axis=1) / values.min(axis=1)).max()) > 1 + MARGIN / 2:
            return False
        models = [cluster.models[i] for i in np.unique(cluster.gpu_model[usable])]
        apps = (self.knowledge.apps.default, *self.knowledge.apps.known.values())
        return len(models) == 1 or all(len({base_of(app, model) for model in models}) == 1 for app in apps)

    @property
    def _usable(self) -> BoolArray:
        usable: BoolArray = self.view.cluster.gpu_exists & self.view.cluster.node_ok[:, None]
        return usable

    def indifferent(self, job: Job) -> bool:
        """It gains nothing by a lease: wherever it starts it runs alike, or it is over too soon."""
        return self._one_span(job) and (self.alike or self.brief(job))

    def _one_span(self, job: Job) -> bool:
        """On one node wherever it starts, so that no span can be better than another."""
        shape = job.shape
        if job.shares and self.config.shares_gpus():
            return False  # the first of two on one GPU must start as we ask
        return shape is not None and not job.het and (shape.max_nodes == 1 or shape.gpus == 1)

    def brief(self, job: Job) -> bool:
        app = self.knowledge.apps.get(job.hint.app, job.user)
        return self._on and self._is_brief(app, self.run_times.of(job, app.name))

    def _is_brief(self, app: App, runs: RunEstimate) -> bool:
        """Even a long one loses little by a GPU as they are on average, and a usual one by the worst."""
        if runs.seconds > MOST_RUN_S or not self._usable.any():
            return False
        spread = self._spread(app)
        usual_s, worst_s = runs.at_most * (spread.mean - spread.best), runs.seconds * (spread.worst - spread.best)
        return usual_s < DELAY_S and worst_s < 2 * DELAY_S

    def _spread(self, app: App) -> StepSpread:
        key = app.cls, tuple(sorted(app.base.items()))
        if key not in self._spreads:
            cluster, usable, scores = self.view.cluster, self._usable, self.knowledge.scores
            bases = np.array([base_of(app, model) for model in cluster.models]) / min(app.base.values(), default=1.0)
            steps = (scores.as_bins[scores.index(app.cls)] * bases[cluster.gpu_model])[usable]
            self._spreads[key] = StepSpread(float(steps.min()), float(steps.mean()), float(steps.max()))
        return self._spreads[key]

    def worth_leasing(self, lapsed: frozenset[int]) -> frozenset[int]:
        """Of the jobs whose lease ran out those that may gain by another: the rest is well off in Slurm's queue."""
        if not lapsed:
            return lapsed
        return frozenset(j.id for j in self.view.pending if j.id in lapsed and not self.indifferent(j))

    def ahead(self, decisions: Sequence[Decision], held_back: Mapping[JobRef, float]) -> tuple[Decision, ...]:
        """The same decisions, but jobs that are indifferent are let go, as long as nobody ahead of them stays.

        `held_back`: jobs whose pin was taken back, until when they get no new one.
        """
        jobs, now = {job.id: job for job in self.view.pending}, self.view.taken
        told = Counter(d.job for d in decisions)
        found, nobody_ahead = [], True
        gone: set[int] = set()  # arrays of which all tasks that wait are let go at once
        for d in decisions:
            if d.job in gone:
                continue
            job = jobs[d.job]
            ours = turn_of(job, now)[0] in (Turn.PLACE, Turn.PLAIN)
            stays = ours and held_back.get(job.key, 0.0) > now
            whole = told[d.job] == 1 or bool(job.array_tasks)
            if ours and not stays and nobody_ahead and whole and self.indifferent(job):
                if job.array_tasks:
                    gone.add(job.id)
                why = Reason.NOTHING_BETTER if self.alike else Reason.OVER_SOON
                d = replace(d, action=Action.PLAIN, reason=why, task=job.array_task, placement=None)
            if stays or (ours and d.action is Action.WAIT):
                nobody_ahead = False
            found.append(d)
        return tuple(found)

    def lines(self, results: Iterable[EditResult], now: float) -> Iterator[str]:
        """What may pass from now on, in alive.py's words."""
        if not self._on or self.view.unread or self._stay(list(results)):
            return
        holds = f"{int(self.view.taken)} {int(now + self.config.cycle.interval_s + HOLDS_S)}"
        if self.alike:
            yield f"pass all {holds}"
        elif kinds := list(islice(self._kinds(), MOST_KINDS)):
            yield f"pass brief {holds}"
            yield from kinds

    def _kinds(self) -> Iterator[str]:
        """Users and applications whose jobs are over too soon, those with most jobs first; `-`: jobs that name none."""
        apps, of_user = self.knowledge.apps, Counter[str]()
        for user, name, _ in sorted(self.run_times.kinds(FEWEST, MOST_RUN_S), key=lambda kind: -kind[2]):
            none = name == apps.default.name and name not in apps.known
            if (none and self.config.patterns) or not (none or is_name(name)):
                continue  # by a pattern such a job may be of any application
            brief = self._is_brief(apps.get(name, user), self.run_times.like(user, name, None, None))
            if not brief or of_user[user] == MOST_OF_USER or (uid := uid_of(user)) is None:
                continue
            yield f"brief {uid} {'-' if none else name}"
            of_user[user] += 1

    def _stay(self, results: Sequence[EditResult]) -> bool:
        """Whether anybody waits under a lease, or may: an edit counts only if it was seen to stand."""
        gone = _let_go(results)
        again = any(r.edit.kind not in _STARTS and r.edit.kind is not EditKind.RENEW and until(r.edit) for r in results)
        competing = (j for j in self.view.pending if j.id not in gone and _competes_leased(j, self.view.taken))
        return again or next(competing, None) is not None


def _competes_leased(job: Job, now: float) -> bool:
    return job.is_leased(now) and turn_of(job, now)[0] in (Turn.PLACE, Turn.PLAIN)


def _let_go(results: Iterable[EditResult]) -> set[int]:
    """Jobs whose lease was seen to be over."""
    over = (Outcome.DONE, Outcome.STARTED, Outcome.GONE)
    return {r.edit.job for r in results if r.edit.kind in _STARTS and r.edit.task is None and r.outcome in over}
