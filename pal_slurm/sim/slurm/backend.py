"""SimSlurm: the port, answered by a Controller in memory. In: edits. Out: snapshots, jobs, edit results.

Records go through the same `records` and `nodes` as those of the real backends, edits through the same `apply`: what is
simulated is Slurm, not our end of it. Questions and edits take their time of the controller's clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import Cluster, Edit, EditResult, Job, JobState, Snapshot, fence_of
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.sim.slurm.machine import Node
from pal_slurm.sim.slurm.trouble import AnswerFate, Trouble
from pal_slurm.sim.slurm.updates import fence, signal, update
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.edits.apply import UNSENT, Heard, apply
from pal_slurm.slurm.edits.prepare import Ready
from pal_slurm.slurm.nodes import PLAIN_WORDS, NodeRecord, SiteWords, to_cluster, to_reservation
from pal_slurm.slurm.port import Capabilities, Left, Passes, Pulse, SchedulerSetup, Series, unbounded
from pal_slurm.slurm.records import ODD
from pal_slurm.slurm.snapshots import in_tiers

EDITS_AT_ONCE = 100


class SimSlurm:
    name = "sim"
    keeps_at_once = 64

    def __init__(self, controller: Controller, site: SiteWords = PLAIN_WORDS, trouble: Trouble | None = None) -> None:
        self.controller = controller
        self.trouble = trouble or Trouble()
        self.edits = 0  # updates that slurmctld got
        self._site = controller.site = site
        self._rpc_s = 0.0
        self._cluster: tuple[int, Cluster] | None = None
        self._nodes: list[NodeRecord] = []  # as that one was made of

    def capabilities(self) -> Capabilities:
        return capabilities_of(self.controller.setup.release)

    def setup(self) -> SchedulerSetup:
        said = self.controller.setup
        shrink = "disable_job_shrink" in said.parameters.split(",")
        return SchedulerSetup(
            said.cluster,
            shrink,
            True,
            said.parameters,
            said.plugins,
            said.task_prolog,
            said.preempts_by_tier,
            said.accounts_hold,
            said.private,
        )

    def snapshot(self) -> Snapshot:
        c = self.controller
        self._ask("snapshot", len(c.pending) + len(c.running))
        reservations = tuple(map(to_reservation, c.reservations))
        unread: list[str] = []
        waiting = list(_readable(c.pending.values(), unread))
        pending = sorted(in_tiers(waiting, c.partitions), key=lambda job: job.order)
        running = tuple(_readable(c.running.values(), unread))
        fresh = Snapshot(
            taken=c.now,
            cluster=self._machine(),
            pending=tuple(pending),
            running=running,
            reservations=reservations,
            dropped_hints=sum(job.hint.dropped for job in (*pending, *running)),
            unread=tuple(unread),
        )
        self.trouble.answered("snapshot")
        return self.trouble.told(fresh)

    def jobs(self, ids: Sequence[int]) -> dict[int, Job]:
        self._ask("jobs", len(ids))
        found = {number: job.job() for number in ids if (job := self.controller.find(number)) is not None}
        self.trouble.answered("jobs")
        return {number: job for number, job in found.items() if job.state is not JobState.OTHER}

    def apply(self, edits: Sequence[Edit], left_s: Left = unbounded, series: Series | None = None) -> list[EditResult]:
        return apply(edits, self, EDITS_AT_ONCE, left_s, series) if edits else []

    def movable(self, qos: Collection[str], partitions: Collection[str]) -> None:
        site = self._site.with_movable(qos, partitions)
        if site == self._site:
            return
        self._site = self.controller.site = site
        for job in (*self.controller.pending.values(), *self.controller.running.values()):
            job.site = site
            job.changed()

    def bound(self, jobs: Sequence[int]) -> dict[int, str]:
        self._ask("bound", len(jobs))
        found = ((number, self.controller.find(number)) for number in jobs)
        return {number: job.bound for number, job in found if job is not None and job.bound}

    def lift(self, jobs: Sequence[int], left_s: Left = unbounded) -> None:
        self._ask("lift", 0)
        if left_s() <= 0:
            return
        for job in jobs:
            self.controller.unreserve(fence_of(job))

    def able(self) -> tuple[Capabilities, bool]:
        self._ask("apply", 0)
        return self.capabilities(), self.setup().disable_job_shrink

    def now(self) -> float:
        return self.controller.now

    def send(self, ready: Sequence[Ready], left_s: Left) -> list[Heard]:
        heard = [Heard(self._send(item)) if left_s() > 0 else UNSENT for item in ready]
        self.trouble.answered("apply")
        return heard

    def records(self, ids: Iterable[int]) -> list[Job]:
        """All records of these jobs and arrays."""
        c, found = self.controller, {}
        for number in dict.fromkeys(ids):
            if (job := c.find(number)) is not None:
                found[number] = job
                if job.record.array_id is None:
                    continue
            found |= {j.record.id: j for j in c.family(number)}
        return [job.job() for job in found.values()]

    def pulse(self) -> Pulse:
        c = self.controller
        self._ask("pulse", 0)
        digest = 0
        for job in (*c.pending.values(), *c.running.values()):
            r = job.record
            digest += zlib.crc32(f"{r.id} {r.state} {r.reason} {r.array_tasks}".encode())
        newest = max((*c.pending, *c.running), default=0)
        self.trouble.answered("pulse")
        return Pulse(len(c.pending), len(c.running), newest, digest & 0xFFFFFFFF)

    def passes(self) -> Passes:
        c = self.controller
        self._ask("passes", 0)
        self.trouble.answered("passes")
        return Passes(c.main_passes, c.backfill_passes, 1, int(self._rpc_s * 1e6), int(c.began), int(c.now))

    def close(self) -> None:
        pass

    def _ask(self, verb: str, jobs: int) -> None:
        c = self.controller
        self.trouble.asked(verb)
        if not c.answers:
            raise SlurmUnavailable("slurmctld does not answer")
        if verb != "apply":
            took = (c.setup.read_s if verb in ("snapshot", "pulse") else 0.0) + c.setup.read_job_s * jobs
            self._rpc_s += took
            c.run_until(c.now + took)

    def _send(self, item: Ready) -> str:
        c = self.controller
        c.run_until(c.now + c.setup.edit_s)
        fate = self.trouble.update(item.target, item.asked)
        if isinstance(fate, str):
            return fate
        if fate is AnswerFate.LOST:
            return ""
        self.edits += 1
        if item.asked.signal:
            return signal(c, item.target, item.asked)
        if item.asked.fence:
            return fence(c, item.before.id, item.asked)
        said = update(c, item.target, item.asked, half=fate is AnswerFate.HALF)
        return update(c, item.target, item.asked) if fate is AnswerFate.TWICE else said

    def _machine(self) -> Cluster:
        """Made anew when nodes or reservations change; else only nodes whose jobs came or went are read anew."""
        c = self.controller
        nodes, last = [node.record() for node in c.nodes], self._nodes
        if self._cluster is None or self._cluster[0] != c.machine or c.reservations:
            closed = tuple(map(to_reservation, c.reservations))
            self._cluster = (c.machine, to_cluster(nodes, c.partitions, closed, self._site, c.now))
        elif touched := [row for row, node in enumerate(nodes) if node is not last[row]]:
            self._cluster = (c.machine, _with_rows(self._cluster[1], c.nodes, touched))
        self._nodes = nodes
        return self._cluster[1]


def _with_rows(cluster: Cluster, nodes: Sequence[Node], rows: Sequence[int]) -> Cluster:
    slots, cpus, memory = cluster.gpu_free.copy(), cluster.cpus_free.copy(), cluster.mem_free_mb.copy()
    parts = None if cluster.parts_free is None else cluster.parts_free.copy()
    for row in rows:
        node, free = nodes[row], nodes[row].told
        slots[row] = [free.slots >> slot & 1 for slot in range(cluster.width)]
        cpus[row], memory[row] = max(free.cpus, 0), max(free.mem_mb, 0)
        if parts is not None:
            parts[row] = [
                0 if node.busy >> slot & 1 else node.shards - node.shared[slot] for slot in range(cluster.width)
            ]
    return replace(cluster, gpu_free=slots, cpus_free=cpus, mem_free_mb=memory, parts_free=parts)


def _readable(jobs: Iterable[SimJob], unread: list[str]) -> Iterator[Job]:
    """As `to_jobs` does it with records."""
    for job in jobs:
        try:
            yield job.job()
        except ODD as error:
            unread.append(f"job {job.record.id} could not be read: {error}")
