"""What one row came to. In: the files that its script wrote, Slurm's records. Out: Got.

Names of nodes and devices, ids and times are left out or counted: nodes and devices are what pald is there to choose.
All else that Slurm says of the job, in its record or in an environment, is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

Task = Mapping[str, str]
# Of a record: who it is, when, where, in which words it was asked for; the request itself, which a pin writes by slot.
_NOT_OF_RECORD = re.compile(r"""
    JobId | JobName | ArrayJobId | HetJobId | HetJobIdSet | SLUID | UserId | JobState | Reason | RunTime | \w+Time
    | Deadline | LastSchedEval | Scheduler | AllocNode:Sid | \w*NodeList | BatchHost | Command | SubmitLine | WorkDir
    | Std\w+ | AdminComment | Priority | TresPer\w+ | Partition | Reservation | Dependency | Nodes | CPU_IDs | Mem
    | \w*GRES | Gres | DerivedExitCode | Features | Prefer | BatchFeatures | -.*
""", re.VERBOSE)  # fmt: skip
_NOT_OF_ENV = re.compile(r"""
    SLURM_(
        JOB_?ID | (JOB|STEP)?_?NODELIST | JOB_(START|END)_TIME | ARRAY_JOB_ID | JOB_DEPENDENCY | HET_JOB_ID | TASK_PID
        | TOPOLOGY_ADDR | NODENAME | SLURMD_NODENAME | NODE_ALIASES | LAUNCH_NODE_IPADDR | SRUN_COMM_(PORT|HOST)
        | STEP_LAUNCHER_PORT | STEP_ID | STEPID | CONF | SUBMIT_DIR | JOB_(NAME|PARTITION|RESERVATION|SLUID) | NODEFILE
        | RESERVATION | STEP_RESV_PORTS | RESV_PORTS
    )(_(HET|PACK)_GROUP_\d+)? | SLURMD_NODENAME | SLURM_(EXC_|REQ_)?NODES | SLURMD_DEBUG | SRUN_DEBUG
    | SBATCH_(CONSTRAINT|PREFER) | SLURM_(CONSTRAINT|PREFER)
""", re.VERBOSE)  # fmt: skip
_DEVICES = re.compile(
    r"SLURM_(JOB|STEP)_GPUS|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|ZE_AFFINITY_MASK"
)
_OURS = re.compile(r"SLURM|SBATCH|SALLOC|SRUN|CUDA|GPU|ROCR|ZE_|PMI|PAL_|SPANK")


@dataclass(frozen=True)
class Got:
    refused: str = ""  # the command's own words
    code: int = 0  # of the command
    ends: tuple[str, ...] = ()  # of each record: state, exit code, limits
    facts: tuple[Mapping[str, str], ...] = ()  # of each record while it ran
    nodes: tuple[tuple[int, int, int], ...] = ()  # (GPUs or parts of some, CPUs, MB) on each, sorted
    batch: tuple[Task, ...] = ()  # the environment of each script
    steps: Mapping[str, tuple[str, tuple[Task, ...]]] = field(
        default_factory=dict
    )  # exit code, its tasks' environments
    two: tuple[int, ...] = ()  # GPUs of each of two steps at once
    apart: int = 0  # how many sets of devices these had; 0: they were never seen to run together
    jobs: tuple[int, ...] = ()  # not compared
    waited: int = 0  # seconds, the longest of its jobs; not compared

    @property
    def ran(self) -> bool:
        return bool(self.facts)


def read(home: Path, number: int, records: str, code: int, said: str) -> Got:
    """The row of that number; `records` are all jobs after their end, one a line."""
    mine = [_words(line) for line in records.splitlines() if f" JobName={home.name}-{number} " in line]
    running = [part for path in _files(home, number, "job") for part in re.split(r"\n\n+", path.read_text()) if part]
    if not mine and not running:
        return Got(refused=_plain(said), code=code)
    scripts: dict[str, list[tuple[str, ...]]] = {}
    for path in _files(home, number, "half[12]"):
        scripts.setdefault(path.stem, []).append(tuple(path.read_text().strip().split(",")))
    return Got(
        code=code,
        ends=tuple(sorted(f"{r.get('JobState')} {r.get('ExitCode')} {_limit(r)}" for r in mine)),
        facts=tuple(_facts(text) for text in running),
        nodes=tuple(sorted(node for text in running for node in _nodes(text))),
        batch=tuple(_environment(path) for path in _files(home, number, "batch")),
        steps={name: (_codes(home, number, name), _tasks(home, number, name)) for name in _names(home, number)},
        two=tuple(sorted(len(devices) for sets in scripts.values() for devices in sets)),
        apart=max((len(set(sets)) for sets in scripts.values()), default=0)
        if _files(home, number, r"half[12]\.together")
        else 0,
        jobs=tuple(int(r["JobId"]) for r in mine),
        waited=max((_seconds(r) for r in mine), default=0),
    )


def _files(home: Path, number: int, kind: str) -> list[Path]:
    names = re.compile(rf"{number}(-\d+)?\.{kind}")
    return sorted(path for path in home.iterdir() if names.fullmatch(path.name))


def _names(home: Path, number: int) -> list[str]:
    found = {path.suffix[5:] for path in _files(home, number, r"code\d+")}
    return sorted(found) or ["1"] * bool(_files(home, number, r"step1\.\d+"))


def _codes(home: Path, number: int, step: str) -> str:
    return " ".join(path.read_text().strip() for path in _files(home, number, f"code{step}"))


def _tasks(home: Path, number: int, step: str) -> tuple[Task, ...]:
    return tuple(_environment(path) for path in _files(home, number, rf"step{step}\.\d+"))


def _words(record: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in record.split() if "=" in word)


def _seconds(record: Mapping[str, str]) -> int:
    start, submit = (record.get(key, "Unknown") for key in ("StartTime", "SubmitTime"))
    if "Unknown" in (start, submit):
        return 0
    return int((datetime.fromisoformat(start) - datetime.fromisoformat(submit)).total_seconds())


def _facts(record: str) -> dict[str, str]:
    words = _words(record)
    words["TimeLimit"] = _limit(words)
    return {key: value for key, value in words.items() if not _NOT_OF_RECORD.fullmatch(key)}


def _limit(record: Mapping[str, str]) -> str:
    """With --time-min Slurm's backfill chooses it, its main pass does not: which of them comes first is chance."""
    least = record.get("TimeMin", "N/A")
    return record.get("TimeLimit", "") if least == "N/A" else f"{least} or more"


def _nodes(record: str) -> Iterable[tuple[int, int, int]]:
    for names, cpus, mem, gres in re.findall(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)", record):
        gpus = sum(map(int, re.findall(r"(?:gpu|shard)(?::[^:(,]+)?:(\d+)", gres)))
        inside = re.search(r"\[(.*)\]", names)
        yield from [(gpus, _count(cpus), int(mem))] * (_count(inside[1]) if inside else 1)


def _environment(path: Path) -> dict[str, str]:
    words = dict(line.split("=", 1) for line in path.read_text(errors="replace").splitlines() if "=" in line)
    ours = {key: value for key, value in words.items() if _OURS.match(key) and not _NOT_OF_ENV.fullmatch(key)}
    return {key: f"{len(value.split(','))} devices" if _DEVICES.match(key) else value for key, value in ours.items()}


def _count(numbers: str) -> int:
    """`0-2,5` are 4."""
    found = (part.partition("-")[::2] for part in numbers.split(","))
    return sum(int(high or low) - int(low) + 1 for low, high in found)


def _plain(said: str) -> str:
    """The last line, without times, ids and names of nodes."""
    last = said.splitlines()[-1] if said else ""
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+|\bn\d+\b|(?<=[Jj]ob )\d+|\bp\d+\b", "#", last)
