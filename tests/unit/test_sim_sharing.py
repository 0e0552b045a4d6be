"""Two jobs on the same GPUs in the simulator: what it costs, who may, and what a table of pairs may say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.published.gavel_pairs import central_pairs
from pal_slurm.errors import BadInput
from pal_slurm.model import App, Gpus, JobKind, ScoreTable, Sharers, Sharing, neutral_scores, step_time
from pal_slurm.policy.entitlement.division import Division, Together
from pal_slurm.policy.entitlement.max_min import max_min
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import NEVER, Engine, Run, Stage
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.traces.gavel import read_pairs
from pal_slurm.sim.workload import Work, workload
from pal_slurm.sim.worlds import Sources, Worlds

CLUSTER = parse_cluster("v100:2x1")
FAST, SLOW = App("fast", "A", {"v100": 1.0}), App("slow", "A", {"v100": 2.0})
COSTS = Sharing(
    {
        Sharers(JobKind("fast", 1), JobKind("slow", 1), "v100"): 1.5,
        Sharers(JobKind("slow", 1), JobKind("fast", 1), "v100"): 1.25,
    }
)


class OnOneGpu:
    """All jobs on the first GPU, as they come."""

    name, restless, wake_at = "one", False, NEVER

    def __init__(self) -> None:
        self._waiting: list[Run] = []

    def arrive(self, run: Run) -> None:
        self._waiting.append(run)

    def ended(self, run: Run, gpus: Gpus) -> None: ...
    def learn(self, known: ScoreTable) -> None: ...
    def act(self, stage: Stage) -> None:
        for run in self._waiting:
            stage.start(run, (0,))
        self._waiting.clear()


def together(sharing: Sharing, *works: Work) -> TraceOutcome:
    return Engine(CLUSTER, neutral_scores(CLUSTER), workload(works), OnOneGpu(), sharing=sharing).run()


def test_a_pair_runs_at_the_speed_of_two_and_who_is_left_at_its_own() -> None:
    done = together(COSTS, Work(1, 0.0, 1, 100.0, FAST), Work(2, 30.0, 1, 40.0, SLOW))
    # 30 s alone; then 100 s of both: 40 steps of the slow one, and 100 / 1.5 of the fast one's last 70
    assert done.end_s[1] == pytest.approx(30 + 40 * 2.0 * 1.25)
    assert done.end_s[0] == pytest.approx(130 + 70 - 100 / 1.5)
    assert done.gpu_seconds == pytest.approx(done.end_s[0])
    assert done.shared_gpu_seconds == pytest.approx(100)
    assert done.figures()["shared"] == pytest.approx(100 / done.end_s[0])


def test_alone_the_last_factor_is_one() -> None:
    assert step_time(2.0, 1.2, 1.1) == step_time(2.0, 1.2, 1.1, 1.0)
    done = together(COSTS, Work(1, 0.0, 1, 100.0, FAST), Work(2, 200.0, 1, 40.0, SLOW))
    assert done.end_s.tolist() == [100.0, 280.0]
    assert done.shared_gpu_seconds == 0


def test_a_pair_that_nobody_measured_is_no_gain() -> None:
    done = together(Sharing(), Work(1, 0.0, 1, 100.0, FAST), Work(2, 0.0, 1, 40.0, SLOW))
    assert done.end_s.min() > 1e9


def test_shares_of_pairs_reach_the_common_level_and_equals_get_the_same() -> None:
    draw = np.random.default_rng(3)
    kind = np.array([0, 0, 0, 1, 1, 2])
    alone = draw.uniform(0.3, 1.0, (3, 2))
    beside = alone[:, None, :] * draw.uniform(0.6, 0.9, (3, 3, 2))
    gpus = np.array([1.0, 2.0])
    division = Division(alone[kind], gpus, together=Together(kind, beside))
    shares = central_pairs(division)
    everything = shares.alone.sum(axis=1) + shares.beside.sum(axis=(1, 2))
    assert everything.max() <= 1 + 1e-6
    assert (shares.alone.sum(axis=0) + shares.beside.sum(axis=(0, 1)) / 2 <= gpus + 1e-6).all()
    rate = (shares.alone * alone[kind]).sum(axis=1) + (shares.beside * beside[kind[:, None], kind]).sum(axis=(1, 2))
    assert (rate / (alone[kind] @ gpus / 3)).min() == pytest.approx(max_min(division).value, rel=1e-4)
    assert np.allclose(shares.alone[0], shares.alone[1]) and np.allclose(shares.beside[0, 3], shares.beside[1, 4])
    assert not np.diagonal(shares.beside, axis1=0, axis2=1).any()


@pytest.mark.parametrize("both", [[1.0], [1.0, -1.0], ["a", 1.0], "x", [1.0, 2.0, 3.0], 3.0])
def test_a_pair_that_is_no_pair_of_throughputs_is_refused_with_its_place(both: object, tmp_path: Path) -> None:
    table = {"v100": {"('A', 1)": {"null": 2.0, "('B', 1)": both}}}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(table))
    with pytest.raises(BadInput, match=r"t.json:1, v100, \('A', 1\), \('B', 1\): "):
        read_pairs(path)


def test_a_table_of_pairs_is_read_as_factors_and_a_pair_without_memory_costs_without_end(tmp_path: Path) -> None:
    others = {"('B', 2)": {"null": 5.0, "('A', 2)": [4.0, 1.6]}, "('C', 2)": {"null": 1.0, "('A', 2)": [0.0, 0.0]}}
    table = {"v100": {"('A', 2)": {"null": 2.0, "('B', 2)": [1.6, 4.0], "('C', 2)": [0.0, 0.0]}, **others}}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(table))
    a, b, c = (JobKind(name, 2) for name in "ABC")
    there = {Sharers(a, b, "v100"): 1.25, Sharers(a, c, "v100"): math.inf}
    assert read_pairs(path).beside == there | {Sharers(b, a, "v100"): 1.25, Sharers(c, a, "v100"): math.inf}


def test_who_shares_must_be_told_what_it_costs() -> None:
    with pytest.raises(BadInput, match="--throughputs"):
        Worlds(Sources("synthetic:jobs=5", sharing=0.5), CLUSTER)
