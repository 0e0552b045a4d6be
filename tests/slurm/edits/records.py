"""Slurm's records of cases. In: `scontrol show job`. Out: what stands in them, with a row's own names of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from pal_slurm.model.hostlist import expand_hosts
from tests.slurm.minicluster import Minicluster
from tests.slurm.shapes.run import Place

Record = Mapping[str, str]
# What nobody's edit sets: who it is, when, why it waits, where Slurm plans it.
_PASSING = re.compile(r"""
    JobId | ArrayJobId | ArrayTaskId | SLUID | Reason | \w+Time | LastSchedEval | Scheduler | SchedNodeList
    | AllocNode:Sid | SubmitLine | Priority | ReqTRES
""", re.VERBOSE)  # fmt: skip
_MARK = re.compile(r" AdminComment=pal1\{[^}]*\}(?= [A-Z]|$)|(?<= AdminComment=)pal1\{[^}]*\} ")
_NODE = re.compile(r"\bn(\d+)\b")


def records_of(cluster: Minicluster) -> list[Record]:
    lines = cluster.client("scontrol", "show", "job", "-o").splitlines()
    return [dict(word.split("=", 1) for word in _MARK.sub("", line).split() if "=" in word) for line in lines]


def of_cases(records: Sequence[Record], ids: Mapping[str, int]) -> dict[str, list[Record]]:
    """Each case's own, an array's in the order of its tasks."""
    by_id: dict[int, list[Record]] = {}
    for record in records:
        if "JobId" in record:
            by_id.setdefault(int(record.get("ArrayJobId", record["JobId"])), []).append(record)
    return {name: sorted(by_id.get(number, []), key=_task) for name, number in ids.items()}


def _task(record: Record) -> int:
    return int(re.split(r"\D", record.get("ArrayTaskId", "0"))[0] or 0)


def at(record: Record, key: str) -> float:
    text = record.get(key, "")
    return datetime.fromisoformat(text).timestamp() if text[:1].isdigit() else 0.0


def stands(records: Sequence[Record], place: Place) -> dict[str, str]:
    """By task and field; of what runs, that it does. Tasks that share a record say the same as those that do not."""
    found = {}
    for record in records:
        fields = record if record.get("JobState") == "PENDING" else {"JobState": record.get("JobState", "")}
        if fields.get("JobState") == "CANCELLED":
            continue  # a task that shared its array's record has none now
        for task in _tasks(record):
            for key, text in fields.items():
                if key == "NumNodes":  # the least is what Slurm last reckoned with
                    text = text.rpartition("-")[2]
                if not _PASSING.fullmatch(key):
                    found[f"{task}{key}"] = local(text, place)
    return found


def _tasks(record: Record) -> Iterator[str]:
    text = record.get("ArrayTaskId", "").partition("%")[0]
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        for task in range(int(low), int(high or low) + 1):
            yield f"task {task}: "
    if not text:
        yield ""


def local(text: str, place: Place) -> str:
    """Nodes of the place by their numbers there; what is another in each run by its kind."""
    if expanded := expand_hosts(text) if re.fullmatch(r"n[\[\]\d,n-]+", text) else None:
        text = ",".join(sorted(expanded))
    there = {number: f"node{i}" for i, number in enumerate(place.nodes, 1)}
    text = _NODE.sub(lambda found: there.get(int(found[1]), found[0]), text)
    text = re.sub(rf"\b(p|also|r){place.number}\b", r"\1", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+", "TIME", text)
    if text.startswith("after"):
        text = re.sub(r"\d+", "N", text)
    return text.replace(place.job, "JOB").replace(str(place.home), "HOME")


def nodes_of(records: Sequence[Record], place: Place) -> tuple[str, ...]:
    return tuple(sorted(local(record.get("NodeList", ""), place) for record in records))


def begins(records: Sequence[Record], when: float) -> dict[str, int]:
    """Begin times to come, by task, in seconds after that."""
    later = [record for record in records if at(record, "EligibleTime") > when]
    return {task: round(at(record, "EligibleTime") - when) for record in later for task in _tasks(record)}
