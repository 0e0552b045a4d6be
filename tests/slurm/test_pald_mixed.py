"""Clusters of several GPU models on a real Slurm: whatever a user writes, with pald he gets what he asked for (P2)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pal_slurm.model import Job
from tests.slurm.backends import backend_of
from tests.slurm.history import jobs_ran
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.test_pald_moves import MOVES, arrived, counting, logs

V, A, H = {"n1", "n2"}, {"n3", "n4"}, {"n5", "n6"}
ALL = V | A | H
BASES = {"v100": 0.4, "a100": 0.2, "h100": 0.1}
SETTINGS = {
    "cluster.models": list(BASES),
    "apps": {"fast": {"class": "A", "base": BASES}},
    "pools.dearer": "ask",
    "pools.billing": {"h100": 2.0},
}


class Got(NamedTuple):
    """What one line got. Slurm bills CPUs here, as on a site that says nothing else."""

    nodes: set[str]
    gpus: int
    cpus: int
    billed: str


class Line(NamedTuple):
    options: tuple[str, ...]
    gpus: int
    nodes: set[str]  # what it asks for
    pald: set[str] | None = None  # what pald may give, where that is less


LINES = {
    "untyped": Line(("--gres=gpu:1",), 1, ALL, V | A),
    "untyped, a known application": Line(("--gres=gpu:1", "--comment=app:fast"), 1, ALL, V | A),
    "the same, and dearer": Line(("--gres=gpu:1", "--comment=x app:fast pal:dearer"), 1, ALL),
    "the same by options": Line(("--gpus=1", "--pal-app=fast", "--pal-dearer"), 1, ALL),
    "a model": Line(("--gres=gpu:a100:2",), 2, A),
    "a dear model": Line(("--gpus=h100:1",), 1, H),
    "a model on two nodes": Line(("-N2", "--gpus-per-node=h100:1"), 2, H),
    "a model per task": Line(("-n2", "--gpus-per-task=a100:1"), 2, A),
    "a constraint": Line(("--gres=gpu:1", "-C", "h100"), 1, H),
    "one model or another": Line(("--gpus=1", "-C", "a100|h100"), 1, A | H),
    "a model and a rack": Line(("--gres=gpu:1", "-C", "v100&rack1"), 1, V),
    "a type and a constraint": Line(("--gres=gpu:v100:1", "-C", "rack1"), 1, V),
    "one model for all nodes": Line(("-N2", "--gpus-per-node=1", "-C", "[v100|a100]"), 2, V | A),
    "so many of each": Line(("-N2", "--gpus-per-node=1", "-C", "[a100*1&h100*1]"), 2, A | H),
    "a list of partitions": Line(("-p", "early,late", "--gres=gpu:1"), 1, V | H),
    "the dear partition": Line(("-p", "late", "--gpus=2"), 2, H),
    "preferred": Line(("--gres=gpu:1", "--prefer=v100", "--comment=app:fast"), 1, ALL, V),
    "preferred among others": Line(("--gres=gpu:1", "--prefer=a100", "-C", "v100|a100"), 1, V | A, A),
    "a node list": Line(("-w", "n5", "--gres=gpu:1"), 1, {"n5"}),
    "excludes": Line(("-x", "n[1-4]", "--gres=gpu:1"), 1, H),
    "three": Line(("--gpus=3", "-N1"), 3, ALL, V | A),
    "the whole node": Line(("--exclusive", "--gres=gpu:1", "-C", "a100"), 4, A),
    "left alone": Line(("--comment=pal:off", "--gpus=h100:1"), 1, H),
    "tasks of an array": Line(("--array=0-1", "--gres=gpu:1", "-C", "a100"), 2, A),
    "an array of any": Line(("--array=0-2%2", "--gpus=1", "--comment=app:fast"), 2, ALL, V | A),
    "components": Line(("--gres=gpu:a100:1", ":", "--gres=gpu:h100:1"), 1, A),
    "one or two nodes": Line(("-N1-2", "--gpus=2", "-C", "v100"), 2, V),
    "a GPU for each of three tasks": Line(("-n3", "--gpus-per-task=1"), 3, ALL, V | A),
    "two tasks for each GPU": Line(("--gpus=2", "--ntasks-per-gpu=2", "-N1"), 2, ALL, V | A),
    "CPUs and memory for each GPU": Line(("--gpus=h100:2", "--cpus-per-gpu=1", "--mem-per-gpu=16"), 2, H),
    "per socket": Line(("--sockets-per-node=1", "--gpus-per-socket=a100:2"), 2, A),
    "nodes of two models by name": Line(("-N2", "-w", "n1,n5", "--gpus-per-node=1"), 2, {"n1", "n5"}),
    "either, in brackets": Line(("--gpus=1", "-C", "(v100|h100)&rack1"), 1, V),
    "preferred, either": Line(("--gres=gpu:1", "--prefer=h100|a100", "-C", "v100|a100"), 1, V | A, A),
    "preferred, and dear": Line(("--gpus=1", "--prefer=h100"), 1, H),
    "one dear model or another": Line(("--gpus=1", "-C", "(h100|a100)&rack3"), 1, H),
    "three partitions": Line(("-p", "late,gpu,early", "--gpus=a100:1"), 1, A),
    "a dear one, but not that": Line(("--gres=gpu:h100:1", "-x", "n5"), 1, {"n6"}),
    "alone on two nodes": Line(("-N2", "--exclusive", "--gpus-per-node=v100:1"), 8, V),
}
BATCH = 3  # that fit beside each other, wherever Slurm or pald puts them


@pytest.fixture(scope="module")
def mixed(release: str) -> Iterator[Minicluster]:
    """Three models, each a rack; a partition for all, and one for the oldest and the newest."""
    cluster = Minicluster.up(
        f"t{os.getpid()}-mixed-{release}", release, "--nodes", "6", "--models", "v100=2,a100=2,h100=2", "--rack-size",
        "2", "--partitions", "early=n[1-2],late=n[5-6]",
    )  # fmt: skip
    yield cluster
    cluster.down()


def got(cluster: Minicluster, lines: Mapping[str, Line] = LINES) -> Mapping[str, Got]:
    """What every line gets, a few at a time; of an array its tasks together."""
    found = {}
    names = list(lines)
    for first in range(0, len(names), BATCH):
        jobs = {name: cluster.submit(*lines[name].options) for name in names[first : first + BATCH]}
        for name, job in jobs.items():
            tasks = 2 if "--array" in lines[name].options[0] else 1
            wait_for(lambda job=job, n=tasks: len(_running(cluster, job)) >= n, f"{name} runs", within=60)  # type: ignore[misc]
        with backend_of(cluster, "cli") as slurm:
            running = slurm.snapshot().running
        for name, job in jobs.items():
            found[name] = _got(cluster, [one for one in running if job in (one.id, one.array_id)])
            cluster.client("scancel", str(job))
        wait_for(lambda: not cluster.client("squeue", "-h").strip(), "all have ended")
    return found


@pytest.mark.every(3)
@pytest.mark.slurm("26.05", slow=("24.11", "22.05"))
def test_with_pald_and_without_every_line_gets_what_it_asks_for(mixed: Minicluster, tmp_path: Path) -> None:
    mixed.reset()
    without = got(mixed)
    wrong = {name: where for name, where in without.items() if not fits(LINES[name], where, LINES[name].nodes)}
    assert wrong == {}, "Slurm alone"
    with Pald(mixed, tmp_path, SETTINGS) as pald:
        assert pald.once() == 0
        pald.start()
        with_pald = got(mixed)
    allowed = {name: line.nodes if line.pald is None else line.pald for name, line in LINES.items()}
    wrong = {name: where for name, where in with_pald.items() if not fits(LINES[name], where, allowed[name])}
    assert wrong == {}, f"{mixed.release}, with pald"
    dearer = {
        name: (without[name][2:], with_pald[name][2:]) for name in LINES if without[name][2:] != with_pald[name][2:]
    }
    assert dearer == {}, f"{mixed.release}: CPUs and what is billed, without pald and with"
    assert with_pald["one model for all nodes"].nodes in (V, A)


def fits(line: Line, got: Got, allowed: set[str]) -> bool:
    return got.nodes <= allowed and got.gpus == line.gpus


def _got(cluster: Minicluster, jobs: Sequence[Job]) -> Got:
    nodes, gpus = {node for one in jobs for node in one.nodes}, sum(len(slots) for one in jobs for slots in one.gpus)
    billed = "+".join(sorted(_billed(cluster.fields(one.id)) for one in jobs))
    return Got(nodes, gpus, sum(one.cpus_alloc for one in jobs), billed)


def _running(cluster: Minicluster, job: int) -> list[str]:
    return cluster.client("squeue", "-h", "-r", "-t", "RUNNING", "-j", str(job), "-o", "%i").split()


def _billed(fields: Mapping[str, str]) -> str:
    tres = fields.get("AllocTRES", fields.get("TRES", ""))
    return next((part for part in tres.split(",") if part.startswith("billing=")), "")


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_job_waits_for_the_model_that_is_worth_it_and_why_names_pools_rates_and_prices(
    mixed: Minicluster, tmp_path: Path
) -> None:
    mixed.reset()
    with Pald(mixed, tmp_path, SETTINGS | {"pools.dearer": "ok"}) as pald:
        assert pald.once() == 0
        jobs_ran(pald, 600)
        jobs_ran(pald, 9 * 3600, "fast", limit_s=36_000)
        pald.start()
        takes = [mixed.submit("--gres=gpu:4", "-C", "h100") for _ in range(2)]
        for job in takes:
            mixed.wait_state(job, "RUNNING", within=60)
        waits = mixed.submit("--gres=gpu:1", "--comment=app:fast", "-t", "600")
        pald.wait_told("Pool ", "why", str(waits))
        why = pald.palctl("why", str(waits))
        assert "Pool gpu/h100: 0.1 s/step, rate 1.00 (told in pal.yaml); taken" in why, why
        assert "Pool gpu/a100: 0.2 s/step, rate 0.50 (told in pal.yaml); free" in why, why
        assert "rate 0.25" in why and "costs those who wait 0.00 s" in why
        assert "but on a GPU model that costs it" in why and mixed.state(waits) == "PENDING"
        mixed.client("scancel", str(takes[0]))
        mixed.wait_state(waits, "RUNNING", within=60)
        assert set(mixed.gpu_indices(waits)) <= H
        rates = pald.palctl("apps", "--rates")
        assert "told" in rates and "0.25" in rates, rates


@pytest.mark.slurm("26.05", slow=("24.11",))
def test_a_job_moves_to_the_model_on_which_it_is_fast_and_why_says_so(mixed: Minicluster, tmp_path: Path) -> None:
    mixed.reset()
    settings = SETTINGS | MOVES | {"apps": SETTINGS["apps"], "pools.dearer": "ok", "pools.wait_s": 1}
    with Pald(mixed, tmp_path, settings) as pald:
        assert pald.once() == 0
        pald.start()
        takes = [mixed.submit("--gres=gpu:4", "-C", model) for model in ("a100", "h100") for _ in range(2)]
        for job in takes:
            mixed.wait_state(job, "RUNNING", within=60)
        log = logs(mixed, "steps-models")
        moves_on = counting(mixed, log, "--comment=app:fast pal:move", "--gres=gpu:1", "-t", "10")
        mixed.wait_state(moves_on, "RUNNING", within=120)
        assert set(mixed.gpu_indices(moves_on)) <= V
        mixed.client("scancel", str(takes[-1]))
        arrived(pald, moves_on, log, 1)
        assert set(mixed.gpu_indices(moves_on)) <= H
        why = pald.palctl("why", str(moves_on))
        assert "0.4 s/step" in why and "0.1 s/step" in why, why
        assert "it was to move from n" in why and "Reckoned: 0.4 to 0.1 s/step" in why, why
