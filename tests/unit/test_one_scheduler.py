"""What `palctl simulate` and `palctl gain` promise is what pald does: they run pald's scheduler and no other.

Each case is a process of its own (tests/one_scheduler.py). A command passes where
- all that it imports of the packages that decide, prove or measure is imported by pald too;
- of pal_slurm/sim only the modules in SIMULATES, and readers of traces, run while simulated time passes;
- the planner in pal_slurm/policy, or its search for moves, has decided each start and each move.
The last cases put schedulers beside pald's own, as there have been some, and see each refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

DECIDES = ("policy", "guard", "daemon", "learning", "model")
# Whoever adds a module here says: it reads, shows or keeps the time of a simulated cluster, and decides nothing. What
# decides belongs into pal_slurm/policy, where pald runs it.
SIMULATES = {
    f"pal_slurm.sim.{name}" for name in (
        "engine", "in_planner", "in_snapshots", "looks", "network", "outcome", "running", "together", "workload",
    )
}  # fmt: skip
READS = "pal_slurm.sim.traces."
DECIDERS = {
    "pal_slurm.policy.walk",
    "pal_slurm.policy.oddjobs",
    "pal_slurm.policy.neighbours",
    "pal_slurm.policy.moving.value",
}
MIXED = ("--cluster", "fast:2x2+slow:2x2", "--restart-cost", "60")
ONE = ("simulate", "synthetic:jobs=40,per_hour=60", "--cluster", "4x4", "--restart-cost", "60")


def watched(*words: str) -> dict[str, list[Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.one_scheduler", *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


@cache
def of_pald() -> frozenset[str]:
    return frozenset(watched("pald")["imports"])


def beyond_pald(seen: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What of it is not pald's, by kind."""
    decides = {name for name in seen["imports"] if name.split(".")[1] in DECIDES}
    sim = {name for name in seen["runs"] if name.startswith("pal_slurm.sim.") and not name.startswith(READS)}
    found: dict[str, list[Any]] = {
        "imports": sorted(decides - of_pald()),
        "runs": sorted(sim - SIMULATES),
        "deciders": sorted(set(seen["makers"]) - DECIDERS),
        "undecided": seen["undecided"],
    }
    return {kind: some for kind, some in found.items() if some}


def mixed(home: Path) -> tuple[str, ...]:
    """A trace of three applications on two GPU models, and what it costs two to have one GPU."""
    jobs = [f"('{name}', 1)" for name in ("a", "b", "c")]
    rates = {"fast": (1.0, 1.0, 1.0), "slow": (0.9, 0.5, 0.2)}
    table = {
        model: {one: {"null": rate, **{other: [0.8 * rate, 0.8 * each] for other, each in zip(jobs, of, strict=True)}}
                for one, rate in zip(jobs, of, strict=True)}
        for model, of in rates.items()
    }  # fmt: skip
    (home / "pairs.json").write_text(json.dumps(table))
    lines = ["\t".join(("job_id", "arrival_s", "model", "scale_factor", "total_steps", "v100_duration_s"))]
    lines += [f"{n}\t{120 * n}\t{'abc'[n % 3]}\t1\t{600 + 97 * n % 1700}\t1" for n in range(40)]
    (home / "trace.tsv").write_text("\n".join(lines) + "\n")
    return ("simulate", str(home / "trace.tsv"), "--format", "gavel", "--throughputs", str(home / "pairs.json"), *MIXED)


def month(home: Path) -> tuple[str, ...]:
    rows = ["JobID|Submit|Start|End|AllocTRES|NodeList|User|Comment|Timelimit"]
    for i in range(48):
        at = 1_790_000_000 + 40_000 * (i // 16)
        ran = 3000 if i % 16 < 4 else 20_000
        rows.append(f"{i}|{at}|{at}|{at + ran}|cpu=1,gres/gpu=1|n{i % 16 // 4 + 1}|u|app:resnet50 pal:move|08:00:00")
    (home / "sacct.txt").write_text("\n".join(rows) + "\n")
    lines = [f"n{n},{slot},A,{1.0 if n == 1 else 1.4}" for n in range(1, 5) for slot in range(4)]
    (home / "scores.csv").write_text("node,slot,class,score\n" + "\n".join(lines) + "\n")
    files = ("--sacct", str(home / "sacct.txt"), "--scores", str(home / "scores.csv"))
    return ("gain", *files, "--gpus-per-node", "4", "--repeat", "2", "--moves")


@pytest.mark.parametrize(
    ("made", "options", "moves"),
    [
        pytest.param(lambda _: ONE, ("--policy", "packed", "--policy", "pal"), True, id="one-model"),
        pytest.param(lambda _: ONE, ("--policy", "dally", "--policy", "pm-first", "--no-moves"), False, id="others"),
        pytest.param(mixed, ("--policy", "pal", "--no-moves"), False, id="mixed"),
        pytest.param(mixed, ("--policy", "pal", "--moves"), True, id="mixed-moves"),
        pytest.param(mixed, ("--policy", "gavel/max-min"), True, id="owed"),
        pytest.param(mixed, ("--policy", "pal", "--sharing", "1", "--no-moves"), False, id="shared"),
        pytest.param(month, (), True, id="gain"),
    ],
)
def test_it_runs_palds_scheduler_alone(made: Any, options: tuple[str, ...], moves: bool, tmp_path: Path) -> None:
    seen = watched(*made(tmp_path), *options)
    assert beyond_pald(seen) == {}
    assert seen["decided"][0] >= 40
    assert ("pal_slurm.policy.moving.value" in seen["makers"]) is moves


FIRST_FIT = """
import pal_slurm.sim.policies as policies
from pal_slurm.sim.engine import NEVER


class FirstFit:
    name, restless, wake_at = "twin", False, NEVER

    def __init__(self, cluster):
        self._free, self._waiting = set(range(cluster.n_gpus)), []

    def arrive(self, run):
        self._waiting.append(run)

    def ended(self, run, gpus):
        self._free.update(gpus)

    def learn(self, known): ...

    def act(self, stage):
        for run in [run for run in self._waiting if run.work.gpus <= len(self._free)]:
            if run.work.gpus > len(self._free):
                return
            gpus = tuple(sorted(self._free)[: run.work.gpus])
            self._free -= set(gpus)
            self._waiting.remove(run)
            stage.start(run, gpus)


def put():
    policies.scheduler_for = lambda spec, setting, *_: FirstFit(setting.cluster)
"""
OTHER_PLANNER = """
from dataclasses import replace

from pal_slurm.model import Decision, Placement
from pal_slurm.policy import Planner
from pal_slurm.sim.in_planner import InPlanner


def elsewhere(decision):
    where = decision.placement
    return Decision(decision.job, None, decision.action, decision.reason, where)


def put():
    plain = InPlanner.plan
    InPlanner.plan = lambda self, now: (
        lambda made: replace(made, starts=tuple(map(elsewhere, made.starts)))
    )(plain(self, now))
"""
CHANGES_MOVES = """
import pal_slurm.sim.looks as looks


def put():
    plain = looks.Looks.moves
    looks.Looks.moves = lambda self, *args: some(plain(self, *args))


def some(moves):
    return moves
"""


@pytest.mark.parametrize(
    ("stands", "code", "seen"),
    [
        ("pal_slurm/sim/twin.py", FIRST_FIT, {"runs", "undecided"}),
        ("pal_slurm/policy/moving/twin.py", FIRST_FIT, {"imports", "undecided"}),
        ("pal_slurm/scores/twin.py", FIRST_FIT, {"undecided"}),
        ("pal_slurm/policy/twin.py", OTHER_PLANNER, {"imports", "deciders"}),
        ("pal_slurm/sim/twin.py", OTHER_PLANNER, {"runs", "deciders"}),
        ("pal_slurm/sim/twin.py", CHANGES_MOVES, {"runs"}),
    ],
)
def test_a_scheduler_beside_it_is_seen(stands: str, code: str, seen: set[str], tmp_path: Path) -> None:
    beside = tmp_path / "twin.py"
    beside.write_text(f"# {stands}\n{code}")
    assert set(beyond_pald(watched("--beside", str(beside), *ONE, "--policy", "pal"))) == seen
