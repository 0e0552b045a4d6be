"""With pald and without: what differs, how pald treated it. In: rows, a release. Out: a Verdict per row and backend.

CI runs a third (`THIRDS`) of the rows through one backend, by turns (tests/turns.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pal_slurm.model import NOT_SENT, EditKind, Intent, Outcome
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald, pin_of, plain
from tests.slurm.shapes.got import Got, Task
from tests.slurm.shapes.rows import Row, rows_for
from tests.slurm.shapes.run import NODES, cluster_for, run_all
from tests.slurm.verdicts.verdict import Verdict, twice
from tests.turns import turn

THIRDS = 3
# Named exceptions: a row that bears one may differ so, and in nothing else.
EXCEPTIONS = {
    "split": "A total of GPUs over several nodes is split evenly, where Slurm alone fills one node first. All totals "
    "are the same; no Slurm promises a split ([placement](placement.md)).",
    "model": "Devices are named by slot, so Slurm alone knows no `gpu:a100` and refuses; job_submit.lua says it as a "
    "feature, and the job runs.",
}
_PER_NODE = frozenset({
    "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
})  # fmt: skip


def backends_of(release: str) -> tuple[str, ...]:
    return ("pyslurm", "cli") if release == "26.05" else ("cli",)


def backend_of_turn(release: str) -> str:
    """All thirds through one, then all through the other."""
    ways = backends_of(release)
    return ways[turn(THIRDS * len(ways)) // THIRDS]


def a_third(release: str, which: int) -> list[Row]:
    return rows_for(release)[which::THIRDS]


def compare(release: str, rows: Sequence[Row], home: Path, name: str, backends: Sequence[str]) -> list[Verdict]:
    return twice(rows, lambda row: row.name, lambda some, at: _compare(release, some, at, name, backends), home)


def _compare(release: str, rows: Sequence[Row], home: Path, name: str, backends: Sequence[str]) -> Iterator[Verdict]:
    """Each row without pald, then beside one with each backend, on one cluster."""
    cluster = cluster_for(rows, name, release)
    try:
        with plain(cluster):
            alone = run_all(cluster, rows, home / "alone")
        for backend in backends:
            with Pald(cluster, home / backend, {"cluster.backend": backend}) as pald:
                pald.start()
                pald.scores(uneven(cluster), classes=("A", "B", "C"))
                pald.wait_cycle()
                beside = run_all(cluster, rows, home / f"beside-{backend}")
                for row in rows:
                    mine = [intent for job in beside[row.name].jobs for intent in pald.intents(job)]
                    yield judge(row, release, backend, alone[row.name], beside[row.name], mine)
    finally:
        cluster.down()


def uneven(cluster: Minicluster) -> dict[str, float]:
    """Scores that send jobs where Slurm alone would not: to the last nodes, to the devices with the highest numbers."""
    return {
        f"{node}:{slot}": 1.3 - 0.02 * (i % NODES) - 0.05 * slot
        for i, node in enumerate(cluster.nodes)
        for slot in range(cluster.gpus)
    }


def judge(row: Row, release: str, backend: str, alone: Got, beside: Got, made: Sequence[Intent]) -> Verdict:
    placed = how(made)
    if not made:  # nothing of pald's touched it: whether its two steps met at once is chance
        beside = replace(beside, apart=alone.apart)
    differs = list(differences(alone, beside))
    seen = ""
    if differs and row.exception == "split":
        differs, seen = list(differences(folded(alone), folded(beside))), "split"
    elif row.exception == "model" and not alone.ran and beside.ran:
        differs, seen = [], "model"
    if row.placed and placed not in (row.placed_on(release), "late"):
        differs.append(f"placed by {placed}, not by {row.placed_on(release)}")
    waited = (alone.waited, beside.waited)
    return Verdict(release, backend, row.name, placed, tuple(differs), seen, in_words(beside), waited)


def how(made: Sequence[Intent]) -> str:
    """How a job was placed: by slots, by nodes, plain, or not at all. `late`: it had begun, or was over, before
    anybody saw what came of the edit."""
    sent = [intent for intent in made if not intent.said.startswith(NOT_SENT)]  # else: too late, and tried again
    starts = [intent for intent in sent if intent.edit.kind is not EditKind.RENEW]
    words = {
        ("slots" if pin_of(intent).slots is not None else "nodes") if intent.edit.kind is EditKind.PIN else "plain"
        for intent in starts
        if intent.outcome is Outcome.DONE
    }
    bad = sorted({str(intent.outcome) for intent in starts} - {Outcome.DONE, Outcome.STARTED, Outcome.GONE})
    return " and ".join(sorted(words) + bad) or ("late" if starts else "none")


def differences(alone: Got, beside: Got) -> Iterator[str]:
    for name in ("refused", "code", "ends", "nodes", "two"):
        one, two = getattr(alone, name), getattr(beside, name)
        if one != two:
            yield f"{name}: {one} -> {two}"
    if 0 < beside.apart < alone.apart:
        yield f"two steps at once share devices: {alone.apart} sets -> {beside.apart}"
    yield from _of_tasks("record", alone.facts, beside.facts)
    yield from _of_tasks("batch", alone.batch, beside.batch)
    for step in sorted(alone.steps.keys() | beside.steps.keys()):
        nothing: tuple[str, tuple[Task, ...]] = ("", ())
        (code, tasks), (code2, tasks2) = alone.steps.get(step, nothing), beside.steps.get(step, nothing)
        if code != code2:
            yield f"step {step} ends with: {code} -> {code2}"
        yield from _of_tasks(f"step {step}", tasks, tasks2)


def _of_tasks(what: str, alone: Sequence[Mapping[str, str]], beside: Sequence[Mapping[str, str]]) -> Iterator[str]:
    if len(alone) != len(beside):
        yield f"{what}: {len(alone)} of them -> {len(beside)}"
        return
    for i, (one, two) in enumerate(zip(alone, beside, strict=True)):
        for key in sorted(one.keys() | two.keys()):
            if one.get(key) != two.get(key):
                yield f"{what} {i}: {key}: {one.get(key)} -> {two.get(key)}"


def folded(got: Got) -> Got:
    """Apart from how a total is split over the nodes."""
    total = tuple(map(sum, zip(*got.nodes, strict=True))) or (0, 0, 0)
    batch = tuple({key: value for key, value in task.items() if key not in _PER_NODE} for task in got.batch)
    facts = tuple({key: value for key, value in record.items() if key != "ReqTRES"} for record in got.facts)
    steps = {name: (code, ({"tasks": str(len(tasks))},)) for name, (code, tasks) in got.steps.items()}
    nodes = ((total[0], total[1], len(got.nodes)),)
    return replace(got, nodes=nodes, facts=facts, batch=batch, steps=steps, two=(), apart=0)


def in_words(got: Got) -> str:
    if not got.ran:
        return f"refused: {got.refused}" if got.refused else "does not run"
    gpus, cpus, memory = map(sum, zip(*got.nodes, strict=True)) if got.nodes else (0, 0, 0)
    return f"{len(got.nodes)} nodes, {gpus} GPUs, {cpus} CPUs, {memory} MB"
