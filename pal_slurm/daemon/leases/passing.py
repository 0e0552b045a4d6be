"""What need not wait for us. In: the snapshot, what is known, what a cycle wrote. Out: jobs to let go, lines for lua.

A lease costs its job up to a second: slurmctld looks at a released job only once a second. It is worth that where we
may place the job better than Slurm does. So job_submit.lua lets a job pass without a lease, by what stands beside our
sign of life (alive.py), where nothing better can come for it:

- `all`: nothing tells one GPU from another, so only jobs whose span may differ need us. Jobs that wait under a lease
  are let go in their order too, and wait in Slurm's own queue.
- `some`: scores are known, and the GPUs that Slurm takes next are as good for a class, within MARGIN, as those that we
  would take, and no more worth to other classes. So many of them, while nobody waits.

Nobody is overtaken: nothing passes while a job that could start waits under a lease. lua itself stops it the moment
that it gives one, until a snapshot that was taken later says again that nobody waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    JobState,
    Knowledge,
    Outcome,
    Pin,
    Placement,
    Reason,
    Shape,
    Snapshot,
    Tier,
    base_of,
    predict,
    until,
)
from pal_slurm.policy import Composition
from pal_slurm.policy.firstfit import first_fit
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.order.slurm import SlurmOrder
from pal_slurm.policy.ranking import Ranking
from pal_slurm.policy.seams import Offer
from pal_slurm.policy.turn import Turn, turn_of

MARGIN = 0.02  # so much slower than what we would choose is not worth a second
MOST_APPS, MOST_PARTITIONS = 500, 20  # lua reads the file for each job
MOST_ROOM = 32  # until the next cycle; each costs us a look at all GPUs
DAY_S = 86_400  # a job that has time to wait for better GPUs
HOLDS_S = 3.0  # beyond the next cycle
SETTLED_S = 2.0  # job_submit.lua believes only in a snapshot that is so much younger than its last lease
_STARTS = (EditKind.PIN, EditKind.PLAIN)


@dataclass(frozen=True)
class Known:
    """One cycle's view."""

    view: Snapshot
    knowledge: Knowledge
    composition: Composition
    config: Config
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
        cluster = self.view.cluster
        usable = cluster.gpu_exists & cluster.node_ok[:, None]
        if not usable.any():
            return False
        values = self.knowledge.scores.as_bins[:, usable]
        if float((values.max(axis=1) / values.min(axis=1)).max()) > 1 + MARGIN / 2:
            return False
        models = [cluster.models[i] for i in np.unique(cluster.gpu_model[usable])]
        apps = (self.knowledge.apps.default, *self.knowledge.apps.known.values())
        return len(models) == 1 or all(len({base_of(app, model) for model in models}) == 1 for app in apps)

    def indifferent(self, job: Job) -> bool:
        """Wherever it starts, it runs alike: on one node, so that no span can be better than another."""
        shape = job.shape
        if job.shares and self.config.shares_gpus():
            return False  # the first of two on one GPU must start as we ask
        return self.alike and shape is not None and not job.het and (shape.max_nodes == 1 or shape.gpus == 1)

    def worth_leasing(self, lapsed: frozenset[int]) -> frozenset[int]:
        """Of the jobs whose lease ran out those that may gain by another: the rest is well off in Slurm's queue."""
        if not self.alike or not lapsed:
            return lapsed
        return frozenset(j.id for j in self.view.pending if j.id in lapsed and not self.indifferent(j))

    def ahead(self, decisions: Sequence[Decision], held_back: Mapping[JobRef, float]) -> tuple[Decision, ...]:
        """The same decisions, but jobs that are indifferent are let go, as long as nobody ahead of them stays.

        `held_back`: jobs whose pin was taken back, until when they get no new one.
        """
        jobs, now = {job.id: job for job in self.view.pending}, self.view.taken
        told = Counter(d.job for d in decisions)
        found, nobody_ahead = [], self.alike
        for d in decisions:
            job = jobs[d.job]
            ours = turn_of(job, now)[0] in (Turn.PLACE, Turn.PLAIN)
            stays = ours and held_back.get(job.key, 0.0) > now
            whole = told[d.job] == 1 and not job.array_tasks
            if ours and not stays and nobody_ahead and whole and self.indifferent(job):
                why = Reason.NOTHING_BETTER
                d = replace(d, action=Action.PLAIN, reason=why, task=job.array_task, placement=None)
            if stays or (ours and d.action is Action.WAIT):
                nobody_ahead = False
            found.append(d)
        return tuple(found)

    def lines(self, results: Iterable[EditResult], now: float, expected: Mapping[int, Placement]) -> Iterator[str]:
        """What may pass from now on, in alive.py's words."""
        results = list(results)
        if not self._on or self.view.unread or self._stay(results):
            return
        holds = f"{int(self.view.taken)} {int(now + self.config.cycle.interval_s + HOLDS_S)}"
        if self.alike:
            yield f"pass all {holds}"
        elif not self.config.patterns and not self._waiting(results):
            rooms = list(self._rooms(results, expected))
            if rooms and len(self.knowledge.apps.known) <= MOST_APPS:
                yield f"pass some {holds}"
                yield from rooms
                yield from self._apps()

    def _stay(self, results: Sequence[EditResult]) -> bool:
        """Whether anybody waits under a lease, or may: an edit counts only if it was seen to stand."""
        gone = _let_go(results)
        again = any(r.edit.kind not in _STARTS and r.edit.kind is not EditKind.RENEW and until(r.edit) for r in results)
        competing = (j for j in self.view.pending if j.id not in gone and _competes_leased(j, self.view.taken))
        return again or next(competing, None) is not None

    def _waiting(self, results: Sequence[EditResult]) -> bool:
        gone = _let_go(results)
        turns = (turn_of(j, self.view.taken)[0] for j in self.view.pending if j.id not in gone)
        return any(turn in (Turn.PLACE, Turn.PLAIN, Turn.THEIRS) for turn in turns)

    def _rooms(self, results: Sequence[EditResult], expected: Mapping[int, Placement]) -> Iterator[str]:
        """Per partition and class, how many single GPUs Slurm would take one after the other that are good enough."""
        cluster = self.view.cluster
        free = cluster.gpu_free & ~self._taken(results, expected)
        floor = Floor(
            replace(cluster, gpu_free=free), self.knowledge, now=self.view.taken, reservations=self.view.reservations
        )
        usable = cluster.gpu_exists & cluster.node_ok[:, None]
        names = [
            name
            for name, nodes in cluster.partitions.items()
            if is_name(name) and len(np.unique(cluster.gpu_model[usable & nodes[:, None]])) == 1
        ]
        for name in names if len(names) <= MOST_PARTITIONS else ():
            for cls in filter(is_name, self.knowledge.scores.classes):
                if count := self._good(name, cls, floor.copy()):
                    yield f"room {name} {cls} {count}"

    def _good(self, partition: str, cls: str, floor: Floor) -> int:
        """Jobs of one GPU in a row that would gain nothing by us, as Slurm itself would place them."""
        app = App("?", cls)
        job = Job(0, JobState.PENDING, int(self.view.taken), "", partitions=(partition,), shape=Shape(gpus=1))
        job = replace(job, gpu_job=True, time_limit_s=DAY_S)
        for count in range(MOST_ROOM):
            ours, slurms = self.composition.placement.place(job, app, floor), first_fit(job, floor)
            if ours is None or slurms is None or not self._as_good(job, app, slurms, ours, floor):
                return count
            floor.take(job, slurms)
        return MOST_ROOM

    def _as_good(self, job: Job, app: App, slurms: Placement, ours: Placement, floor: Floor) -> bool:
        """For the job itself, who might rather wait than take it, and for other classes."""
        cluster, worth = floor.cluster, floor.merit(app.cls).worth
        steps = [predict(app, where, cluster, self.knowledge.scores) for where in (slurms, ours)]
        needed = [worth[cluster.node_index[where.nodes[0]], where.gpus[0][0]] for where in (slurms, ours)]
        faster, usable = floor.faster(app.cls, steps[0])
        offer = Offer(Tier.GPU, steps[0], waited_s=0.0, faster=faster, usable=usable)
        waits = not self.composition.fill.strict and self.composition.patience.waits(job, offer) is not None
        return bool(steps[0] <= steps[1] * (1 + MARGIN) and needed[0] <= needed[1] and not waits)

    def _taken(self, results: Sequence[EditResult], expected: Mapping[int, Placement]) -> BoolArray:
        cluster = self.view.cluster
        taken: BoolArray = np.zeros_like(cluster.gpu_exists)
        for where in expected.values():
            for node, slots in zip(where.nodes, where.gpus, strict=True):
                taken[cluster.node_index[node], list(slots)] = True
        for r in results:
            pin = r.edit if isinstance(r.edit, Pin) else Pin(0)
            for node in pin.nodes:
                taken[cluster.node_index[node], list(pin.slots) if pin.slots else slice(None)] = True
        return taken

    def _apps(self) -> Iterator[str]:
        apps = self.knowledge.apps
        classes = self.knowledge.scores.classes
        default = classes[self.knowledge.scores.index(apps.default.cls)]
        for name, app in apps.known.items():
            cls = classes[self.knowledge.scores.index(app.cls)]
            if cls != default and is_name(name):
                yield f"app {name} {cls}"
        yield f"class {default}"


def _competes_leased(job: Job, now: float) -> bool:
    return job.is_leased(now) and turn_of(job, now)[0] in (Turn.PLACE, Turn.PLAIN)


def _let_go(results: Iterable[EditResult]) -> set[int]:
    """Jobs whose lease was seen to be over."""
    over = (Outcome.DONE, Outcome.STARTED, Outcome.GONE)
    return {r.edit.job for r in results if r.edit.kind in _STARTS and r.edit.task is None and r.outcome in over}
