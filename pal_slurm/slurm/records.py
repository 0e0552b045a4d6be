"""One job as a backend reads it, and what the model makes of it. In: JobRecord, Slurm's own words. Out: Job.

Both backends fill a JobRecord; only this file knows what its words mean. The order of its fields is the order in
which the pyslurm worker sends them (`JOB_FIELDS` in pyslurm/worker/read.py), checked when the worker says hello.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

import msgspec

from pal_slurm.model import (
    NO_HINT,
    UNREADABLE,
    Consent,
    Hint,
    Job,
    JobState,
    Lease,
    Request,
    Waits,
    consent_of,
    read_hint,
)
from pal_slurm.slurm import devices, gres
from pal_slurm.slurm.excluded import ours_of
from pal_slurm.slurm.mark import read_mark
from pal_slurm.slurm.nodes import PLAIN_WORDS, SiteWords
from pal_slurm.slurm.nodeset import unfold
from pal_slurm.slurm.reasons import why
from pal_slurm.slurm.requests import Demand, asked_of, edited_since
from pal_slurm.words import printable

HOLDS_RESOURCES = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED"})
CUT = frozenset({"CANCELLED", "FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE", "REVOKED"})
MOST_TASKS = 4_000_001  # Slurm's own greatest MaxArraySize
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # of one job's values
_TASKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")


class JobRecord(msgspec.Struct, array_like=True):
    """Facts of one job. An absent text is "", an absent number None; times are epoch seconds."""

    id: int
    submit: int
    state: str
    user: str
    priority: int | None = None
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    time_limit_min: int | None = None  # None: no limit
    least_limit_min: int | None = None  # --time-min; 0: none
    num_nodes: int | None = None  # pending: the least number
    max_nodes: int | None = None
    cpus: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    min_cpus_per_node: int | None = None
    mem_per_node_mb: int | None = None
    mem_per_cpu_mb: int | None = None
    array_id: int | None = None
    array_task: int | None = None
    array_limit: int | None = None
    het_id: int | None = None
    requeue: bool = False
    restarts: int = 0
    nice: int | None = None
    exclusive: bool = False
    batch: int | None = None  # BatchFlag; None: a batch job, and how often it was started is not told
    account: str = ""
    qos: str = ""
    partition: str = ""
    reason: str = ""
    features: str = ""
    required_nodes: str = ""
    excluded_nodes: str = ""
    reservation: str = ""
    dependency: str = ""
    planned_nodes: str = ""
    array_tasks: str = ""  # `0-9`, `1,3-9:2`
    nodes: str = ""
    per_node: str = ""
    per_job: str = ""
    per_task: str = ""
    per_socket: str = ""
    mem_per_gpu: str = ""  # `gres/gpu:4096`
    cpus_per_gpu: str = ""
    admin_comment: str = ""
    comment: str | None = ""  # None: there is one, and it can't be read
    name: str = ""
    command: str = ""  # the batch script and its arguments
    gres_detail: list[str] = []  # one text per node that it runs on
    by_user: bool = False  # exclusive, but for jobs of its user, or of some others
    oversubscribes: bool = False  # --oversubscribe: what it may have of others' CPUs its partition says
    prefer: str | None = None  # None: not told
    deadline: int | None = None


def to_job(record: JobRecord, site: SiteWords = PLAIN_WORDS) -> Job:
    state = _state(record.state)
    pending = state is JobState.PENDING
    lease = _lease(record) if record.admin_comment else None
    demand = Demand(
        record.per_node, record.per_job, record.per_task, record.per_socket, record.num_nodes, record.max_nodes,
        record.partition, record.features, lease.original if lease else None, lease is not None and lease.own_nodes,
        lease is not None and lease.interactive, record.required_nodes != "", record.mem_per_gpu, record.cpus_per_gpu,
        record.ntasks, record.ntasks_per_node, record.cpus_per_task, record.min_cpus_per_node, record.cpus,
        record.mem_per_node_mb, record.mem_per_cpu_mb, record.oversubscribes,
    )  # fmt: skip
    asked = asked_of(demand)
    partitions, hint = _words(record.partition), _hint(record.comment)
    nodes = () if pending else unfold(record.nodes)
    return Job(
        id=record.id,
        state=state,
        submit=record.submit,
        since=None,
        user=record.user,
        account=_plain(record.account),
        qos=record.qos,
        partitions=partitions,
        priority=record.priority or 0,
        reason=record.reason or "None",
        why=Waits.HELD if pending and record.priority == 0 else why(record.reason),
        eligible=record.eligible,
        start=record.start,
        time_limit_s=None if record.time_limit_min is None else record.time_limit_min * 60,
        least_limit_s=record.least_limit_min * 60 if record.least_limit_min else None,
        end=None if pending else record.end,
        shape=None if record.het_id is not None else asked.shape,
        roughly=asked.roughly,
        gpu_job=asked.gpus,
        request=asked.request,
        slots=asked.slots,
        shard=asked.shard,
        by_part=asked.by_part and record.het_id is None and record.batch != 0,
        types=asked.types,
        required_nodes=record.required_nodes,
        excluded_nodes=record.excluded_nodes,
        excluded=ours_of(record.excluded_nodes) if pending and record.excluded_nodes else None,
        features=record.features,
        reservation=record.reservation,
        dependency=record.dependency,
        planned_nodes=record.planned_nodes,
        hint=hint,
        consent=_consent(record, partitions, hint, lease, site),
        name=record.name,
        command=record.command,
        lease=lease,
        array_id=record.array_id,
        array_task=record.array_task,
        array_tasks=read_tasks(record.array_tasks),
        array_limit=record.array_limit,
        het=record.het_id is not None,
        requeue=record.requeue,
        restarts=record.restarts,
        nice=record.nice or 0,
        batch=record.batch,
        completing=record.state == "COMPLETING",
        cut=record.state in CUT,
        suspended=record.state == "SUSPENDED",
        nodes=nodes,
        gpus=_devices(record.gres_detail, len(nodes)) if nodes else (),
        parts=_parts(record.gres_detail, len(nodes)) if nodes else (),
        cpus_alloc=0 if pending else record.cpus or 0,
        ntasks=record.ntasks or 1,
        exclusive=record.exclusive,
        slurms=(record.by_user or record.deadline is not None) and lease is not None,
    )


def to_jobs(records: Iterable[JobRecord], site: SiteWords, unread: list[str]) -> Iterator[Job]:
    """The same of many; one whose values no job can be made of is named in `unread`, and costs no other."""
    for record in records:
        try:
            yield to_job(record, site)
        except ODD as error:
            unread.append(printable(f"job {record.id} could not be read: {type(error).__name__}: {error}", 200))


def in_whole_nodes(job: Job, whole: Collection[str]) -> Job:
    """A job that names a partition of whole nodes shares its nodes with nobody."""
    return job if job.exclusive or not any(name in whole for name in job.partitions) else replace(job, exclusive=True)


def _lease(record: JobRecord) -> Lease | None:
    """Our mark; what it gives back is the request as it was when it was pinned."""
    lease = read_mark(record.admin_comment)
    if lease is not None and record.prefer is not None and record.state == "PENDING" and record.prefer != lease.prefer:
        lease = replace(lease, prefer=record.prefer)  # its user may have edited it
    if lease is None or lease.own_nodes or not record.required_nodes:
        return lease
    texts = record.per_node, record.per_job, record.per_task, record.per_socket
    stands = Request(*texts, partition=record.partition)
    original = edited_since(lease.original, stands, len(unfold(record.required_nodes)))
    return lease if original == lease.original else replace(lease, original=original)


@lru_cache(maxsize=1024)
def _plain(text: str) -> str:
    """A text that is safe to print: without slurmdbd an account is whatever the user typed (P9)."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def _state(word: str) -> JobState:
    if word == "PENDING":
        return JobState.PENDING
    return JobState.RUNNING if word in HOLDS_RESOURCES else JobState.OTHER


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


@lru_cache(maxsize=4096)
def _hint_of(comment: str) -> Hint:
    return read_hint(comment)


def _hint(comment: str | None) -> Hint:
    if comment is None:
        return UNREADABLE
    if not comment:
        return NO_HINT
    return _hint_of(comment) if len(comment) <= 256 else read_hint(comment)


def _consent(
    record: JobRecord, partitions: tuple[str, ...], hint: Hint, lease: Lease | None, site: SiteWords
) -> Consent:
    """A job that names several partitions may run in any of them: all must be such whose jobs may be moved."""
    return consent_of(
        hint.consent,
        restarts=record.requeue and (lease is None or not (lease.interactive or lease.requeue is False)),
        asked_first=lease is not None and lease.asked_to_move,
        site=record.qos in site.movable_qos or (bool(partitions) and site.movable_partitions.issuperset(partitions)),
        requeue=lease is not None and lease.requeue is True,
    )


def _devices(detail: list[str], nodes: int) -> tuple[tuple[int, ...], ...]:
    """Device indices per node; a job without devices, or of unknown ones, has none on each."""
    if len(detail) != nodes:
        return ((),) * nodes
    return tuple(gres.indices_of(text or "") for text in detail)


def _parts(detail: list[str], nodes: int) -> tuple[tuple[int, ...], ...]:
    """The same of those that others may have a part of too; nothing where there are none."""
    if len(detail) != nodes:
        return ()
    found = tuple(devices.parts_of(text or "") for text in detail)
    return found if any(found) else ()


@lru_cache(maxsize=1024)
def read_tasks(text: str) -> tuple[int, ...]:
    """`1,3-9:2%4` as 1, 3, 5, 7, 9; nothing when it is not that, or when Slurm cut it short with `...`."""
    if not text:
        return ()
    tasks: list[int] = []
    for part in text.partition("%")[0].split(","):
        match = _TASKS.fullmatch(part.strip("[]"))
        if not match:
            return ()
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if high >= MOST_TASKS or step < 1:
            return ()
        tasks.extend(range(low, high + 1, step))
        if len(tasks) > MOST_TASKS:
            return ()
    return tuple(tasks)
