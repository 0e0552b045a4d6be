"""One row of squeue as a JobRecord. In: QueueRow. Out: JobRecord, in the words that records.py understands.

What squeue leaves out: whether memory is meant per CPU or per node (told from the job's TRES), an array's %limit and
the devices of a running job (details.py).
"""

from __future__ import annotations

import re
from functools import lru_cache

from pal_slurm.slurm.commands.columns import QueueRow
from pal_slurm.slurm.records import JobRecord
from pal_slurm.words import digits

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_NUMBER = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)([KMGTP]?)[a-z]?")
_BY_USER = frozenset({"USER", "MCS", "TOPO"})
NAMELESS = "nobody"  # squeue's name for every UID that has none: all of those would be one user, and that account's
_ALONE = frozenset({"NO", *_BY_USER})  # what OverSubscribe says of a job that shares its nodes with nobody, or some


class Unread(Exception):
    """A record that can't be understood; `str()` is a sentence for the snapshot."""


class TooLong(Unread):
    """Its user made it so, and it alone bears that."""


def to_record(row: QueueRow) -> JobRecord:
    if row.cut:
        raise TooLong(f"job {row.get('JobId')}: its {', '.join(row.cut)} is longer than anything pal-slurm reads")
    try:
        return _to_record(row)
    except ValueError as error:
        raise Unread(f"job {row.get('JobId')}: {error}") from error


def _to_record(row: QueueRow) -> JobRecord:
    get = row.get
    record = JobRecord(
        id=int(get("JobId")),
        state=get("State"),
        submit=_must(_time(get("SubmitTime")), "it has no submit time"),
        user="" if get("UserName") == NAMELESS else get("UserName"),
        account=get("Account"),
        qos=get("QOS"),
        partition=get("Partition"),
        priority=_amount(get("PriorityLong")),
        reason=get("Reason"),
        eligible=_time(get("EligibleTime")),
        start=_time(get("StartTime")),
        end=_time(get("EndTime")),
        time_limit_min=minutes(get("TimeLimit")),
        least_limit_min=minutes(get("MinTime")),
        num_nodes=_amount(get("NumNodes")),
        max_nodes=_amount(get("MaxNodes")),
        cpus=_amount(get("NumCPUs")),
        ntasks=_amount(get("NumTasks")),
        ntasks_per_node=_amount(get("NTPerNode")),
        cpus_per_task=_amount(get("cpus-per-task")),
        min_cpus_per_node=_amount(get("MinCPUs")),
        per_node=get("tres-per-node"),
        per_job=get("tres-per-job"),
        per_task=get("tres-per-task"),
        per_socket=get("tres-per-socket"),
        mem_per_gpu=get("mem-per-tres"),
        cpus_per_gpu=get("cpus-per-tres"),
        features=get("Feature"),
        required_nodes=get("ReqNodes"),
        excluded_nodes=get("ExcNodes"),
        reservation=get("Reservation"),
        dependency=get("Dependency"),
        planned_nodes=get("SchedNodes"),
        comment=_comment(row.raw("Comment")),
        name=_name(row.raw("Name")),
        command=_name(row.raw("Command")),
        admin_comment=get("admin_comment"),
        het_id=_amount(get("HetJobId")) or None,
        requeue=get("Requeue") == "1",
        restarts=_amount(get("RestartCnt")) or 0,
        nice=_nice(get("Nice")),
        batch=_amount(get("BatchFlag")),
        nodes=get("NodeList"),
        exclusive=_alone(get("OverSubscribe"), get("Exclusive")),
        by_user=(get("Exclusive") or get("OverSubscribe")) in _BY_USER,
        oversubscribes=get("OverSubscribe") == "YES",
        prefer=get("Prefer"),
        deadline=_time(get("Deadline")),
    )
    _add_memory(record, get("MinMemory"), get("tres-alloc"))
    _add_array(record, row)
    return record


def _add_array(record: JobRecord, row: QueueRow) -> None:
    first = row.tasks[0] if row.tasks else ""
    if not digits(first.partition("%")[0]):
        return
    record.array_id = _amount(row.get("ArrayJobId"))
    numbers = sorted({int(task.partition("%")[0]) for task in row.tasks})
    if len(numbers) == 1:
        record.array_task = numbers[0]
    else:
        record.array_tasks = ",".join(map(str, numbers))


def _add_memory(record: JobRecord, least: str, tres: str) -> None:
    """squeue prints one number for --mem and --mem-per-cpu; the total in TRES tells which it is."""
    memory = megabytes(least)
    if not memory or record.mem_per_gpu:
        return
    parts = dict(part.partition("=")[::2] for part in tres.split(","))
    total, cpus, nodes = megabytes(parts.get("mem", "")), _amount(parts.get("cpu", "")), record.num_nodes or 1
    if not total or not cpus:
        record.mem_per_node_mb = memory
        return
    as_cpus, as_nodes = abs(total - memory * cpus), abs(total - memory * nodes)
    # One CPU per node: both mean the same, unless 22.05 has not yet counted the CPUs that come with each GPU.
    if as_cpus < as_nodes or (as_cpus == as_nodes and not record.cpus_per_gpu):
        record.mem_per_cpu_mb = memory
    else:
        record.mem_per_node_mb = memory


def _comment(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _name(raw: bytes) -> str:
    """A name that can be read; one that can't matches no pattern."""
    return raw.decode("utf-8", "replace")


def _alone(oversubscribe: str, exclusive: str) -> bool:
    if exclusive:
        return exclusive != "NO"
    return oversubscribe in _ALONE


def _must(value: int | None, sentence: str) -> int:
    if value is None:
        raise ValueError(sentence)
    return value


@lru_cache(maxsize=4096)
def _time(text: str) -> int | None:
    return int(text) if digits(text) else None


@lru_cache(maxsize=4096)
def _amount(text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    return int(float(match[1]) * _UNITS[match[2]]) if match and len(text) < 16 else _long(text)


def _nice(text: str) -> int | None:
    number = text.removeprefix("-")
    return None if not digits(number) else -int(number) if number != text else int(number)


def _long(text: str) -> int | None:
    return int(text) if digits(text) else None


@lru_cache(maxsize=4096)
def megabytes(text: str) -> int | None:
    """`500M`, `62.50G`, `100Mc` as MB; a number without a unit is in MB."""
    match = _NUMBER.fullmatch(text)
    return round(float(match[1]) * _UNITS[match[2] or "M"] / _UNITS["M"]) if match else None


@lru_cache(maxsize=1024)
def minutes(text: str) -> int | None:
    """`10:00`, `1:00:00`, `1-00:00:00` as minutes; None when there is no limit, or none yet."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(digits(part) for part in parts) or (dash and not digits(days)) or len(parts) not in (2, 3):
        return None
    hours, mins, seconds = ["0", *parts][-3:]
    total = ((int(days) if dash else 0) * 24 + int(hours)) * 60 + int(mins)
    return total + (int(seconds) > 0)
