"""Reading Slurm through pyslurm. In: pyslurm's objects. Out: rows (lists of plain values) in the order of the records.

The order of a job's row is that of JobRecord in records.py, a node's that of NodeRecord, and so on; the worker says
`JOB_FIELDS` in its hello, and the daemon's end compares.
"""

from __future__ import annotations

import ctypes
import pwd
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

Row = list[Any]

# (name in JobRecord, name in pyslurm). Numbers, and what may be None; then texts, where None is "".
NUMBERS = (
    ("priority", "priority"),
    ("eligible", "eligible_time"),
    ("start", "start_time"),
    ("end", "end_time"),
    ("time_limit_min", "time_limit"),
    ("least_limit_min", "time_limit_min"),
    ("num_nodes", "num_nodes"),
    ("max_nodes", "max_nodes"),
    ("cpus", "cpus"),
    ("ntasks", "ntasks"),
    ("ntasks_per_node", "ntasks_per_node"),
    ("cpus_per_task", "cpus_per_task"),
    ("min_cpus_per_node", "min_cpus_per_node"),
    ("mem_per_node_mb", "memory_per_node"),
    ("mem_per_cpu_mb", "memory_per_cpu"),
    ("array_id", "array_id"),
    ("array_task", "array_task"),
    ("array_limit", "array_tasks_parallel"),
    ("het_id", "heterogeneous_id"),
    ("requeue", "is_requeueable"),
    ("restarts", "requeue_count"),
    ("nice", "nice"),
)
TEXTS = (
    ("account", "account"),
    ("qos", "qos"),
    ("partition", "partition"),
    ("reason", "state_reason"),
    ("features", "features_text"),
    ("required_nodes", "required_nodes"),
    ("excluded_nodes", "excluded_nodes"),
    ("reservation", "reservation"),
    ("dependency", "dependency_text"),
    ("planned_nodes", "scheduled_nodes"),
    ("array_tasks", "array_tasks_waiting"),
    ("nodes", "allocated_nodes"),
)
TRES = ("per_node", "per_job", "per_task", "per_socket", "mem_per_gpu", "cpus_per_gpu")
JOB_FIELDS = (
    *("id", "submit", "state", "user"),
    *(ours for ours, _ in NUMBERS),
    *("exclusive", "batch"),
    *(ours for ours, _ in TEXTS),
    *TRES,
    *("admin_comment", "comment", "name", "command", "gres_detail", "by_user", "oversubscribes", "prefer", "deadline"),
)
# The longest comment that can be anybody's hint; what is longer is cut to one more, so that it is seen to be too long.
MOST_COMMENT = 8193
ALONE = frozenset({"NO", "USER", "MCS", "TOPO"})  # it shares its nodes with nobody else
BY_USER = ALONE - {"NO"}  # but for some
MOST_NAME = 258  # of job and script: they are only held against patterns

_head = attrgetter("id", "submit_time", "state")
_numbers = attrgetter(*(theirs for _, theirs in NUMBERS))
_texts = attrgetter(*(theirs for _, theirs in TEXTS))
_users: dict[int, str] = {}


def job_row(job: Any) -> Row:
    """One job; UnicodeDecodeError when a text that decides something can't be read."""
    number, submit, state = _head(job)
    row = [number, submit or 0, state, user_name(job.user_id)]
    row += _numbers(job)
    row.append(job.resource_sharing in ALONE)
    row.append(None if job.is_batch_job else 0)
    row += [text or "" for text in _texts(job)]
    row += [text or "" for text in job.tres_texts]
    row.append(_comment(job, "admin_comment") or "")
    row.append(_comment(job, "comment"))
    row += [(_comment(job, name) or "")[:MOST_NAME] for name in ("name", "command")]
    row.append([text or "" for text in job.gres_detail] if state != "PENDING" else [])
    row += [job.resource_sharing in BY_USER, job.resource_sharing == "YES"]
    row += [",".join(job.preferred_features or ()), job.deadline or None]
    return row


def _comment(job: Any, name: str) -> str | None:
    """Free text, which may hold anything: None when it is no UTF-8."""
    try:
        text = getattr(job, name)
    except UnicodeDecodeError:
        return None
    return text[:MOST_COMMENT] if text else ""


def user_name(uid: int) -> str:
    name = _users.get(uid)
    if name is None:
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        _users[uid] = name
    return name


def job_rows(jobs: Iterable[Any], unread: list[str]) -> Iterator[Row]:
    """All rows; a job that can't be read is named in `unread` and costs nobody else anything."""
    for job in jobs:
        try:
            yield job_row(job)
        except (UnicodeDecodeError, ValueError, IndexError) as error:
            unread.append(f"job {job.id} could not be read: {error}")


def node_rows(nodes: Iterable[Any]) -> list[Row]:
    return [
        [
            node.name,
            node.state,
            node.effective_cpus,
            node.allocated_cpus,
            max(0, (node.real_memory or 0) - (node.memory_reserved_for_system or 0)),
            node.allocated_memory or 0,
            node.features_text or "",
            node.gres_text or "",
            node.gres_used or "",
            ",".join(node.available_features or ()),
        ]
        for node in nodes
    ]


def reservation_rows(reservations: Iterable[Any]) -> list[Row]:
    return [
        [
            resv.name,
            resv.nodes or "",
            resv.start_time or 0,
            resv.end_time or 0,
            _flags(resv),
            *(list(names or ()) for names in (resv.users, resv.accounts, resv.groups)),
            bool(resv.cpu_ids_by_node),
        ]
        for resv in reservations
    ]


def _flags(resv: Any) -> list[str]:
    flags = resv.flags
    return [flag.name for flag in type(flags) if flag in flags and flag.name]


def pass_over_unknown(flags: Any) -> None:
    """Bits that pyslurm has no name for (TIME_FLOAT, REPLACE ...) would make all of a reservation's a ValueError."""
    known, missing = 0, flags._missing_
    for flag in flags:
        known |= flag.value

    def pass_over(cls: Any, value: int) -> Any:
        return missing(value) if value & known == value else cls(value & known)

    flags._missing_ = classmethod(pass_over)


def topology_text() -> str:
    """The switches, one per line as scontrol prints them; "" where there are none. pyslurm has no way to ask."""
    slurm = ctypes.CDLL(None)  # libslurm, which pyslurm loads with RTLD_GLOBAL, and libc
    slurm.open_memstream.restype = ctypes.c_void_p
    answer, text, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    if slurm.slurm_load_topo(ctypes.byref(answer), None) != 0 or not answer:
        return ""
    stream = ctypes.c_void_p(slurm.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    slurm.slurm_print_topo_info_msg(stream, answer, None, None, 1)
    slurm.fclose(stream)
    said = ctypes.string_at(text, size.value).decode("utf-8", "replace") if text else ""
    slurm.free(text)
    slurm.slurm_free_topo_info_msg(answer)
    return said
