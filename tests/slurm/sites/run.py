"""A site's jobs without pald and with it, on one cluster. In: a Site, a release. Out: what differs, in words.

Rows have room enough, so each has to start and to get the same. A crowd has not: as many of it have to run.
"""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, plain
from tests.slurm.sites.table import SPLIT, Crowd, Site

STEADY_S = 2.5  # nothing has changed for so long: nothing will
PATIENCE_S = 25.0  # more than a pin that is taken back three times costs here
_OF_NODE = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")
Share = tuple[int, int, int]  # GPUs, CPUs, MB of one node


@dataclass(frozen=True)
class Got:
    states: tuple[str, ...] = ()  # of its records: RUNNING, or PENDING and why
    nodes: tuple[Share, ...] = ()
    lag: int = 0  # seconds until the last of it ran, by Slurm's clock


@dataclass
class Run:
    rows: dict[str, Got] = field(default_factory=dict)
    crowds: dict[str, tuple[int, float]] = field(default_factory=dict)  # how many ran, after how long
    edits: dict[str, Counter[str]] = field(default_factory=dict)


def started(cluster: Minicluster, site: Site, pald: Pald | None, before: Run | None) -> Run:
    run = Run()
    with _edits(pald, run.edits, "rows"):
        run.rows = _rows(cluster, site, before.rows if before else None)
    for crowd in site.crowds:
        with _edits(pald, run.edits, crowd.name):
            run.crowds[crowd.name] = _crowd(cluster, crowd, before.crowds[crowd.name][0] if before else None)
    return run


@contextmanager
def _edits(pald: Pald | None, into: dict[str, Counter[str]], name: str) -> Iterator[None]:
    first = len(pald.ledger()) if pald else 0
    yield
    if pald:
        new = [i for i in pald.ledger()[first:] if i.edit.kind is not EditKind.RENEW]
        into[name] = Counter(f"{i.edit.kind}{'' if i.outcome == 'done' else f' {i.outcome}'}" for i in new)


def _submit(cluster: Minicluster, name: str, options: str, count: int = 1, user: str | None = None) -> str:
    """A line of shell."""
    words = ["sbatch", "-J", name, "-o", "/dev/null", "-t", "60", *shlex.split(options), "--wrap", "sleep 600"]
    return f"for i in $(seq {count}); do {shlex.join(words)} || echo {name} refused; done 2>&1"


def _rows(cluster: Minicluster, site: Site, before: Mapping[str, Got] | None) -> dict[str, Got]:
    script = "\n".join(_submit(cluster, f"r{i}", row) for i, row in enumerate(site.rows))
    said = cluster.client("sh", "-c", script, timeout=120)
    refused = {line.split()[0]: said for line in said.splitlines() if line.endswith(" refused")}
    last: object = None
    begun = same = now = time.monotonic()
    found: dict[str, Got] = {}
    while now - begun < PATIENCE_S and now - same < STEADY_S + (before is not None) * 8:
        records = cluster.client("scontrol", "show", "job", "-d")
        found = {row: _got(records, f"r{i}", refused) for i, row in enumerate(site.rows)}
        pictured = {row: (got.nodes, got.states) for row, got in found.items()}
        if last != pictured:
            last, same = pictured, now
        if all(set(got.states) == {"RUNNING"} for got in found.values()):
            break
        if before is not None and all(got.nodes == before[row].nodes for row, got in found.items()):
            break
        time.sleep(0.3)
        now = time.monotonic()
    _clear(cluster)
    return found


def _got(records: str, name: str, refused: Mapping[str, str]) -> Got:
    mine = [r for r in records.split("\n\n") if f" JobName={name}\n" in r and "JobState=CANCELLED" not in r]
    if not mine:
        return Got((f"refused {refused.get(name, '')}",))
    states, lags = [], []
    for record in mine:
        words = dict(word.split("=", 1) for word in record.split() if "=" in word)
        runs = words["JobState"] == "RUNNING"
        many = 1
        if "ArrayTaskId" in words and not runs:
            many = len(words["ArrayTaskId"])
        states += [words["JobState"] if runs else f"{words['JobState']} {words['Reason']}"] * min(many, 1)
        if runs:
            lags.append(_epoch(words["StartTime"]) - _epoch(words["SubmitTime"]))
    nodes = sorted(node for record in mine for node in _nodes(record))
    return Got(tuple(sorted(states)), tuple(nodes), int(max(lags, default=0)))


def _epoch(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def _nodes(record: str) -> Iterator[Share]:
    for names, cpus, mem, gres in _OF_NODE.findall(record):
        gpus = sum(map(int, re.findall(r"gpu(?::[^:(,]+)?:(\d+)", gres)))
        inside = re.search(r"\[(.*)\]", names)
        yield from [(gpus, _count(cpus), int(mem))] * (_count(inside[1]) if inside else 1)


def _count(numbers: str) -> int:
    found = (part.partition("-")[::2] for part in numbers.split(","))
    return sum(int(high or low) - int(low) + 1 for low, high in found)


def _running(cluster: Minicluster, name: str) -> int:
    return len(cluster.client("squeue", "-h", "-n", name, "-t", "RUNNING", "-o", "%i").split())


def _crowd(cluster: Minicluster, crowd: Crowd, enough: int | None) -> tuple[int, float]:
    for number, (count, options) in enumerate(crowd.first):
        cluster.client("sh", "-c", _submit(cluster, f"first{number}", options, count), timeout=120)
    names = [f"first{number}" for number, _ in enumerate(crowd.first)]
    _steady(cluster, names, None)
    cluster.client("sh", "-c", _submit(cluster, "crowd", crowd.options, crowd.count), timeout=120)
    found = _steady(cluster, ["crowd"], enough)
    _clear(cluster)
    return found


def _steady(cluster: Minicluster, names: Sequence[str], enough: int | None) -> tuple[int, float]:
    begun = changed = now = time.monotonic()
    count = 0
    while now - begun < PATIENCE_S:
        new = sum(_running(cluster, name) for name in names)
        if new != count:
            count, changed = new, now
        if enough is not None and count >= enough:
            break
        if enough is None and now - changed > STEADY_S:
            break
        time.sleep(0.2)
        now = time.monotonic()
    return count, round(changed - begun, 1)


def _clear(cluster: Minicluster) -> None:
    cluster._cancel_all()
    wait_for(cluster._as_new, "all nodes are idle", 60)


def differences(alone: Run, beside: Run) -> Iterator[str]:
    """Of a total over several nodes all of it is the same; no Slurm promises how it is split (docs/shapes.md)."""
    for row, got in beside.rows.items():
        was = alone.rows[row]
        same = got.nodes == was.nodes or (row in SPLIT and _total(got) == _total(was))
        if not same or _refused(got) != _refused(was):
            yield f"`{row}`: {_said(was)} -> {_said(got)}"
    for name, (many, after) in beside.crowds.items():
        was_many, was_after = alone.crowds[name]
        if many < was_many:
            yield f"{name}: {was_many} run after {was_after} s -> {many} after {after} s"


def _total(got: Got) -> tuple[int, ...]:
    return tuple(map(sum, zip(*got.nodes, strict=True)))


def _refused(got: Got) -> list[str]:
    return [state for state in got.states if "refused" in state]


def _said(got: Got) -> str:
    return f"{'; '.join(f'{g} GPUs {c} CPUs {m} MB' for g, c, m in got.nodes)} {Counter(got.states)}"


def compare(cluster: Minicluster, site: Site, home: Path, backend: str) -> tuple[Run, Run, str]:
    with plain(cluster):
        alone = started(cluster, site, None, None)
    with Pald(cluster, home, {"cluster.backend": backend, "policy.patience": "none", **site.pal}) as pald:
        pald.start()
        pald.scores(uneven(cluster), classes=("A", "B", "C"))
        pald.wait_cycle()
        beside = started(cluster, site, pald, alone)
        pald.stop()
        return alone, beside, pald.said()


def uneven(cluster: Minicluster) -> dict[str, float]:
    """Scores that send jobs where Slurm alone would not: to the last nodes, to the devices with the highest numbers."""
    return {
        f"{node}:{slot}": 1.3 - 0.02 * i - 0.02 * slot
        for i, node in enumerate(cluster.nodes)
        for slot in range(cluster.gpus)
    }
