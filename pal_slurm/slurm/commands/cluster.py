"""Nodes, partitions, reservations, topology and settings. In: answers of `scontrol show`. Out: records.

Only operators write texts in these answers; even so a key counts where it stands first, and a line that names no
record is passed over.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import PartitionRule
from pal_slurm.slurm.commands.queue import minutes
from pal_slurm.slurm.nodes import Machine, NodeRecord, PartitionRecord, ReservationRecord
from pal_slurm.slurm.nodeset import unfold
from pal_slurm.slurm.port import UNKNOWN, Passes, SchedulerSetup
from pal_slurm.slurm.topology import Switch, Topology, topology_of
from pal_slurm.words import digits

_QUESTION = re.compile(r"REQUEST_\w*INFO\w*\s.*total_time:([0-9]+)")
ASSOCIATED = frozenset({"associations", "limits", "qos", "safe", "wckeys", "all"})  # each of them means the first
_OVER = re.compile(r"(FORCE|YES)(?::([0-9]+))?")
_SHARED = ("USER", "MCS", "TOPO")  # nodes are shared by some, and not by others
QUESTIONS = ("show node", "show partition", "show reservation", "show topology")


def read_machine(answers: list[bytes]) -> Machine:
    """The answers to QUESTIONS, in their order."""
    nodes, partitions, reservations, topology = (answer.decode("utf-8", "replace") for answer in answers)
    return Machine(
        [_node(keys) for keys in _records(nodes, "NodeName=")],
        [_partition(keys) for keys in _records(partitions, "PartitionName=")],
        [_reservation(keys) for keys in _records(reservations, "ReservationName=")],
        read_topology(topology),
    )


def _records(text: str, first: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        if line.startswith(first):
            keys: dict[str, str] = {}
            for word in line.split():
                key, found, value = word.partition("=")
                if found:
                    keys.setdefault(key, value)
            yield keys


def _node(keys: dict[str, str]) -> NodeRecord:
    usable = _number(keys.get("CPUEfctv")) or _number(keys.get("CPUTot"))
    return NodeRecord(
        name=keys["NodeName"],
        state=keys.get("State", "UNKNOWN"),
        cpus=usable,
        cpus_alloc=_number(keys.get("CPUAlloc")),
        mem_mb=max(0, _number(keys.get("RealMemory")) - _number(keys.get("MemSpecLimit"))),
        mem_alloc_mb=_number(keys.get("AllocMem")),
        features=_text(keys.get("ActiveFeatures")),
        gres=_text(keys.get("Gres")),
        gres_used=_text(keys.get("GresUsed")),
        available=_text(keys.get("AvailableFeatures")),
    )


def _partition(keys: dict[str, str]) -> PartitionRecord:
    return PartitionRecord(
        name=keys["PartitionName"],
        nodes=_text(keys.get("Nodes")),
        up=keys.get("State") == "UP",
        exclusive=keys.get("OverSubscribe") == "EXCLUSIVE" or keys.get("Exclusive", "NO") not in (*_SHARED, "NO", ""),
        billing=_text(keys.get("TRESBillingWeights")),
        rule=_rule(keys),
        by_user="YES" in (keys.get("ExclusiveUser"), keys.get("ExclusiveTopo")) or keys.get("Exclusive") in _SHARED,
        oversubscribed=_oversubscribed(keys.get("OverSubscribe", "")),
    )


def _oversubscribed(text: str) -> str:
    """`FORCE:1` gives each CPU to one job; without a number it is four."""
    match = _OVER.fullmatch(text)
    return match[1] if match and match[2] not in ("0", "1") else ""


def _rule(keys: dict[str, str]) -> PartitionRule:
    """UNLIMITED and other words are no number, and no bound."""
    longest = minutes(keys.get("MaxTime", ""))
    allowed, denied = keys.get("AllowQos", "ALL"), _text(keys.get("DenyQos")).split(",")
    return PartitionRule(
        tier=_number(keys.get("PriorityTier", "1")),
        longest_s=math.inf if longest is None else 60.0 * longest,
        least_nodes=_number(keys.get("MinNodes")),
        most_nodes=_number(keys.get("MaxNodes")) or math.inf,
        qos=None if allowed == "ALL" else frozenset(allowed.split(",")),
        not_qos=frozenset(filter(None, denied)),
        preempted=keys.get("PreemptMode", "OFF") != "OFF",
    )


def _reservation(keys: dict[str, str]) -> ReservationRecord:
    return ReservationRecord(
        name=keys["ReservationName"],
        nodes=_text(keys.get("Nodes")),
        start=_number(keys.get("StartTime")),
        end=_number(keys.get("EndTime")),
        flags=_list(keys.get("Flags")),
        users=_list(keys.get("Users")),
        accounts=_list(keys.get("Accounts")),
        groups=_list(keys.get("Groups")),
        partly="CoreIDs" in keys,
    )


def _list(text: str | None) -> list[str]:
    return [word for word in _text(text).split(",") if word]


def read_partitions(answer: bytes) -> dict[str, PartitionRecord]:
    """By name, from the answer to `show partition`."""
    found = map(_partition, _records(answer.decode("utf-8", "replace"), "PartitionName="))
    return {record.name: record for record in found}


def read_qos_of_partitions(answer: bytes) -> dict[str, str]:
    """Each partition's own QOS, or nothing."""
    found = _records(answer.decode("utf-8", "replace"), "PartitionName=")
    return {keys["PartitionName"]: _text(keys.get("QoS")) for keys in found}


def read_topology(text: str) -> Topology:
    """Trees, blocks and rings; a torus tells nothing of who is near whom that a tier could hold."""
    return topology_of([*_switches(text), *_blocks(text), *_rings(text)])


def _switches(text: str) -> Iterator[Switch]:
    for keys in _records(text, "SwitchName="):
        yield Switch(keys["SwitchName"], _number(keys.get("Level")), unfold(_text(keys.get("Nodes"))))


def _blocks(text: str) -> Iterator[Switch]:
    """Blocks of blocks have a level by their size."""
    for keys in _records(text, "BlockName="):
        yield Switch(keys["BlockName"], 0, unfold(_text(keys.get("Nodes"))), _number(keys.get("BlockSize")))
    wider = list(_records(text, "AggregatedBlock="))
    sizes = sorted({_number(keys.get("BlockSize")) for keys in wider})
    for keys in wider:
        size = _number(keys.get("BlockSize"))
        yield Switch(keys["AggregatedBlock"], 1 + sizes.index(size), unfold(_text(keys.get("Nodes"))), size)


def _rings(text: str) -> Iterator[Switch]:
    for keys in _records(text, "RingName="):
        yield Switch(keys["RingName"], 0, unfold(_text(keys.get("Nodes"))))


def _text(value: str | None) -> str:
    return "" if value is None or value in ("(null)", "N/A") else value


def _number(value: str | None) -> int:
    return int(value) if value and digits(value) else 0


def read_config(answer: bytes) -> dict[str, str]:
    """`Key = value` lines of `scontrol show config`."""
    settings: dict[str, str] = {}
    for line in answer.decode("utf-8", "replace").splitlines():
        key, found, value = line.partition("=")
        if found:
            settings.setdefault(key.strip(), value.strip())
    if "SLURM_VERSION" not in settings:
        raise SlurmUnavailable("scontrol's answer does not hold slurmctld's settings: is it Slurm's own scontrol?")
    return settings


def to_setup(settings: dict[str, str]) -> SchedulerSetup:
    parameters, flags = _text(settings.get("SchedulerParameters")), settings.get("PriorityFlags", "")
    return SchedulerSetup(
        cluster_name=settings.get("ClusterName", ""),
        disable_job_shrink="disable_job_shrink" in parameters.split(","),
        accrue_always=settings.get("PriorityType") == "priority/basic" or "ACCRUE_ALWAYS" in flags.split(","),
        scheduler_parameters=parameters,
        plugins=_text(settings.get("JobSubmitPlugins")),
        task_prolog=_text(settings.get("TaskProlog")),
        preempts_by_tier=settings.get("PreemptType", "") == "preempt/partition_prio",
        accounts_hold=not ASSOCIATED.isdisjoint(settings.get("AccountingStorageEnforce", "").lower().split(",")),
        private=_private(settings.get("PrivateData")),
    )


def _private(told: str | None) -> tuple[str, ...]:
    """`none`, or words with commas."""
    if told is None:
        return UNKNOWN
    return tuple(sorted(word for word in told.lower().split(",") if word not in ("", "none", "(null)")))


def read_passes(answer: bytes) -> Passes:
    """sdiag: its two `Total cycles` are the main scheduler's and the backfill's, in this order."""
    cycles: list[int] = []
    threads = rpc_us = told = 0
    started: int | None = None  # 0 in slurmctld's first seconds
    for line in answer.decode("utf-8", "replace").splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "Total cycles" and digits(value):
            cycles.append(int(value))
        elif key == "Server thread count":
            threads = _number(value)
        elif line.startswith("Data since"):
            started = _epoch(line)
        elif line.startswith("sdiag output at"):
            told = _epoch(line) or 0
        elif match := _QUESTION.search(line):
            rpc_us += _number(match[1])
    if len(cycles) < 2 or started is None:
        raise SlurmUnavailable("sdiag's answer does not tell Slurm's scheduling passes")
    return Passes(cycles[0], cycles[1], threads, rpc_us, started, told)


def _epoch(line: str) -> int | None:
    """Of `... at Wed Nov 18 10:09:13 2026 (1794996553)`."""
    word = line.rpartition("(")[2].rstrip(" )")
    return int(word) if digits(word) else None
