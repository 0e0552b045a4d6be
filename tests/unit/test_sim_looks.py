"""pald's looks for moves in the simulator: who is moved, when, and that a GPU that drifts is left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.config.moves import MovesSection
from pal_slurm.model import App, Gpus, ScoreTable, homogeneous
from pal_slurm.policy import compose
from pal_slurm.scores import binned
from pal_slurm.sim.engine import Change, ClusterRules, Engine, Stage
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.looks import Looks
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.workload import Work, workload

CLUSTER = homogeneous(2, 4)
APP = App("a", "A", {"gpu": 1.0}, (1.0, 1.0, 1.7, 1.7))
HOUR = 3600.0


def scores(**slow: float) -> ScoreTable:
    """By GPU, as `g3=1.5`; all else 1.0."""
    made = np.ones((1, 2, 4))
    for name, score in slow.items():
        made.reshape(-1)[int(name[1:])] = score
    return binned(("A",), made)


class Seen(InPlanner):
    """Where each job was, from when on."""

    def act(self, stage: Stage) -> None:
        super().act(stage)
        for run in self._runs.values():
            steps = self.where.setdefault(run.work.id, [])
            if run.gpus and (not steps or steps[-1][1] != run.gpus):
                steps.append((stage.now, run.gpus))

    where: dict[int, list[tuple[float, Gpus]]]


def run(
    works: list[Work], truth: ScoreTable, *, changes: tuple[Change, ...] = (), keys: MovesSection | None = None
) -> tuple[TraceOutcome, dict[int, list[tuple[float, Gpus]]]]:
    scheduler = Seen("value", CLUSTER, truth, compose("pal", order="fifo", patience="none"), looks=Looks(60.0, keys))
    scheduler.where = {}
    made = Engine(CLUSTER, truth, workload(works), scheduler, ClusterRules(restart_cost_s=60.0), changes).run()
    return made, scheduler.where


def job(number: int, at: float, hours: float, gpus: int = 1, movable: bool = True) -> Work:
    return Work(number, at, gpus, hours * HOUR, APP, 3 * hours * HOUR, requeue=movable)


def test_half_an_hour_of_drift_moves_the_movable_job_off_the_gpu_and_leaves_the_other() -> None:
    """1.0 to 1.5, and back: as a GPU that is throttled for a while."""
    works = [job(0, 0.0, 4.0), job(1, 1.0, 4.0, movable=False)]
    _, where = run(works, scores())
    gpus = {number: steps[0][1][0] for number, steps in where.items()}
    drift = scores(**{f"g{gpu}": 1.5 for gpu in gpus.values()})
    changes = (Change(HOUR, drift, drift), Change(1.5 * HOUR, scores(), scores()))
    made, where = run(works, scores(), changes=changes)
    ((begun, _), (moved, second)) = where[0]
    assert (begun, moved) == (0.0, HOUR) and second[0] not in gpus.values()
    assert len(where[1]) == 1  # it was never asked
    assert made.jct_s.tolist() == pytest.approx([4 * HOUR + 60, 4 * HOUR + 600], abs=2)
    still, _ = run([replace(work, requeue=False) for work in works], scores(), changes=changes)
    assert still.jct_s[0] == pytest.approx(4 * HOUR + 600, abs=2)  # twenty minutes' work in half an hour


def test_nobody_is_moved_in_his_first_minutes_or_more_often_than_his_budget() -> None:
    slow = scores(g0=1.5, g1=1.5, g2=1.5, g3=1.5)
    works = [job(0, 0.0, 0.06, gpus=4), job(9, 1.0, 6.0, gpus=4)]
    _, where = run(works, slow)
    (first, *moves) = where[9]
    assert first[0] == 1.0 and [at for at, _ in moves] == [516.0]  # n1 is free after 216 s, too early for it
    _, where = run(works, slow, keys=MovesSection(per_job=0))
    assert len(where[9]) == 1


@pytest.mark.parametrize(
    ("users", "keys", "most"),
    [
        (("", ""), MovesSection(per_user=1), 2),  # nobody is named: each is somebody else's
        (("u", "v"), MovesSection(per_user=1), 2),
        (("u", "u"), MovesSection(per_user=1), 1),
        (("u", "v"), MovesSection(per_cluster=1), 1),
        (("u", "v"), MovesSection(share=0.005), 2),
        (("u", "v"), MovesSection(share=0.004), 0),  # of 8 GPUs' hour: 115 s; a move loses two GPUs a minute
    ],
)
def test_budgets_of_users_and_of_gpu_time_hold_as_in_pald(
    users: tuple[str, str], keys: MovesSection, most: int
) -> None:
    """Two jobs on slow GPUs, for which four good ones come free; how many are moved in the hour after."""
    slow = scores(g0=1.5, g1=1.5, g2=1.5, g3=1.5)
    pair = [replace(job(n, 1.0, 6.0, gpus=2), user=user) for n, user in enumerate(users, 1)]
    _, where = run([job(0, 0.0, 0.1, gpus=4), *pair], slow, keys=keys)
    assert sum(at < 1.1 * HOUR for n in (1, 2) for at, _ in where[n][1:]) == most


def test_palctl_simulate_moves_as_pald_does(tmp_path: Path) -> None:
    def simulated(*words: str) -> int:
        out = tmp_path / "out.json"
        asked = ["simulate", "synthetic:jobs=60,per_hour=20", "--cluster", "4x4", "--policy", "pal", "--json", str(out)]
        made = CliRunner().invoke(palctl, [*asked, "--moving", "value", "--restart-cost", "60", *words])
        assert made.exit_code == 0, made.output
        (value,) = json.loads(out.read_text())
        return int(value["moves"])

    assert simulated() > 0
    assert simulated("--no-moves") == simulated("--movable", "0") == 0
