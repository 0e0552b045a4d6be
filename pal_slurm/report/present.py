"""The present, as pald last saw it. In: a snapshot, and what was decided about it. Out: one JSON document, and back.

pald writes it down beside its cycle, so that who wants to see asks neither pald nor slurmctld. Rows are lists, not
maps: a queue of 50,000 jobs is 5 MB, and read in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
import numpy as np

from pal_slurm.errors import BadInput
from pal_slurm.model import Apps, Cluster, Decision, Job, Snapshot
from pal_slurm.report.text import clock

VERSION = 1
MOST_BYTES = 200_000_000


class NodeNow(msgspec.Struct, frozen=True, array_like=True):
    name: str
    ok: bool  # may start a job now
    model: str  # of its first GPU
    exists: int  # slots: bit 0 is g0
    free: int


class RunningNow(msgspec.Struct, frozen=True, array_like=True):
    job: int  # of a task: its array, as its user knows it
    task: int | None
    user: str
    app: str
    cls: str
    nodes: tuple[str, ...]
    gpus: tuple[tuple[int, ...], ...]  # device indices per node
    start: int
    end: int | None  # by its time limit

    @property
    def n_gpus(self) -> int:
        return sum(map(len, self.gpus))


class WaitingNow(msgspec.Struct, frozen=True, array_like=True):
    job: int
    task: int | None
    tasks: int  # of an array, that wait in this record
    user: str
    app: str
    cls: str
    gpus: int  # at least; 0: it asks in a way that can't be pinned
    partitions: tuple[str, ...]
    submit: int
    action: str  # of the last decision; empty: there is none, pald is paused or does not know it yet
    reason: str  # our word
    slurm: str  # Slurm's own
    lease: int | None  # until then it waits for pald at most
    until: float | None  # when it will probably start


class StartNow(msgspec.Struct, frozen=True, array_like=True):
    """When a waiting job will probably start."""

    expected: float
    early: float
    late: float


FORECAST = ("expected_start", "expected_start_early", "expected_start_late", "forecast_at")
UNSEEN = ("jobs", "users")  # private until pald has said what slurm.conf keeps private


class Present(msgspec.Struct, frozen=True, kw_only=True):
    version: int = VERSION
    cluster: str
    taken: float  # when Slurm was asked
    actuator: str
    policy: str
    end: str = "ok"  # how the last cycle ended
    sentence: str = ""  # what it said
    ended: float = 0.0
    interval_s: float = 0.0  # cycles come at least that often
    notes: tuple[str, ...] = ()  # what pald says is wrong with it
    private: tuple[str, ...] = UNSEEN  # PrivateData of slurm.conf: what users are not told of others
    nodes: tuple[NodeNow, ...] = ()
    running: tuple[RunningNow, ...] = ()
    waiting: tuple[WaitingNow, ...] = ()  # in the order in which they are considered
    forecasts: dict[int, StartNow] = {}  # by job, of those who wait and for whom anybody can tell
    forecast_at: float = 0.0  # when they were made: less often than all else

    def forecast(self, job: int) -> dict[str, float | None]:
        """As JSON tells it."""
        start = self.forecasts.get(job)
        if start is None:
            return dict.fromkeys(FORECAST)
        return dict(zip(FORECAST, (start.expected, start.early, start.late, self.forecast_at), strict=True))


def present_of(
    snapshot: Snapshot, decisions: Iterable[Decision], apps: Apps, *, cluster: str, actuator: str, policy: str,
    private: tuple[str, ...] = (),
) -> Present:  # fmt: skip
    """GPU jobs only."""
    last: dict[int, Decision] = {}
    for decision in decisions:
        last.setdefault(decision.job, decision)
    jobs = [(place, job) for place, job in enumerate(snapshot.pending) if job.gpu_job]
    ranks = {job.id: last[job.id].rank if job.id in last else place for place, job in jobs}
    jobs.sort(key=lambda entry: (ranks[entry[1].id], entry[0]))
    return Present(
        cluster=cluster,
        taken=snapshot.taken,
        actuator=actuator,
        policy=policy,
        private=private,
        nodes=nodes_now(snapshot.cluster),
        running=tuple(_running(job, apps) for job in snapshot.running if job.gpu_job and job.holds),
        waiting=tuple(_waiting(job, last, apps, snapshot.taken) for _, job in jobs),
    )


def own(present: Present, sees: Callable[[str], bool]) -> Present:
    """What Slurm's PrivateData leaves of it to one user; `sees`: whether jobs of that user are shown to him."""
    if "jobs" in present.private:
        running = tuple(job for job in present.running if sees(job.user))
        waiting = tuple(job for job in present.waiting if sees(job.user))
        forecasts = {job.job: present.forecasts[job.job] for job in waiting if job.job in present.forecasts}
        present = msgspec.structs.replace(present, running=running, waiting=waiting, forecasts=forecasts)
    return msgspec.structs.replace(present, nodes=()) if "nodes" in present.private else present


def forecast_words(start: StartNow, now: float) -> str:
    """`about 14:20 (14:05 to 15:10)`; with the day, where that is another."""
    today = clock(now, "%Y-%m-%d")

    def at(when: float) -> str:
        return clock(when, "%H:%M" if clock(when, "%Y-%m-%d") == today else "%Y-%m-%d %H:%M")

    return f"about {at(start.expected)} ({at(start.early)} to {at(start.late)})"


def forecast_sentences(present: Present, job: int) -> tuple[str, ...]:
    """One, or none."""
    start = present.forecasts.get(job)
    if start is None:
        return ()
    return (f"Expected start {forecast_words(start, present.taken)}, as of {clock(present.forecast_at, '%H:%M:%S')}.",)


def nodes_now(cluster: Cluster) -> tuple[NodeNow, ...]:
    """Those that have GPUs."""
    if not cluster.width:
        return ()
    bit = 1 << np.arange(cluster.width, dtype=np.int64)
    exists, free = cluster.gpu_exists @ bit, (cluster.gpu_free & cluster.gpu_exists) @ bit
    models = cluster.gpu_model[np.arange(cluster.n_nodes), cluster.gpu_exists.argmax(axis=1)]
    rows = zip(
        cluster.node_names, cluster.node_ok.tolist(), models.tolist(), exists.tolist(), free.tolist(), strict=True
    )
    return tuple(NodeNow(name, ok, cluster.models[model], has, idle) for name, ok, model, has, idle in rows if has)


def _running(job: Job, apps: Apps) -> RunningNow:
    name, number = job.hint.app, job.id if job.array_task is None else job.array_id or job.id
    return RunningNow(
        number, job.array_task, job.user, name or "", apps.get(name).cls, job.nodes, job.holds, job.start or 0, job.end
    )


def _waiting(job: Job, last: Mapping[int, Decision], apps: Apps, now: float) -> WaitingNow:
    decided, name = last.get(job.id), job.hint.app
    return WaitingNow(
        job.id, job.array_task, len(job.array_tasks), job.user, name or "", apps.get(name).cls,
        job.shape.least_gpus if job.shape else 0, job.partitions, job.submit,
        decided.action.value if decided else "", decided.reason.value if decided else "", job.reason,
        job.eligible if job.is_leased(now) else None, decided.until if decided else None,
    )  # fmt: skip


def to_bytes(present: Present) -> bytes:
    return msgspec.json.encode(present)


def from_bytes(data: bytes) -> Present:
    """BadInput: it is of another release, or nobody's."""
    try:
        present = msgspec.json.decode(data, type=Present)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"what pald last saw can't be read: {error}") from error
    if present.version != VERSION:
        raise BadInput(f"what pald last saw is of another release (version {present.version}, not {VERSION})")
    return present
