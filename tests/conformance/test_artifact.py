"""The published artifact, to the digit: 16 average JCTs and makespans that its own code gives.

In: the artifact's job lists and the scores that it draws with seed 42 (public data beside the project).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.published.orders import order_named
from benchmarks.published.pal import PalRounds
from benchmarks.published.policies import Published
from pal_slurm.cli.commands.simulate import command
from pal_slurm.model import homogeneous
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.profiles import read_scores
from pal_slurm.sim.traces import read_trace

DATA = Path(__file__).parents[2] / "../shared/data/pal"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the public data of the artifact are not at ../shared/data")

EXPECTED = {  # policy -> per workload: average JCT s, makespan s
    "artifact/pal": ((25320.99, 225982), (263712.11, 678213), (106396.16, 257642), (17323.81, 198605)),
    "artifact/pm-first": ((25467.24, 226342), (274210.61, 686133), (111521.66, 257642), (20611.06, 198605)),
    "artifact/packed-sticky": ((30243.99, 545302), (583340.36, 1700613), (214576.16, 381122), (19535.56, 526205)),
    "artifact/packed-nonsticky": ((30034.74, 267022), (365774.36, 1223613), (234043.16, 414602), (18527.56, 236405)),
}


@pytest.mark.parametrize("workload", [1, 2, 3, 4])
@pytest.mark.parametrize("policy", EXPECTED)
def test_the_artifact_is_reproduced_to_the_digit(policy: str, workload: int) -> None:
    cluster = homogeneous(16, 4)
    scores = read_scores(DATA / "artifact_seed42_scores.csv", 16, 4)
    load = read_trace(DATA / f"traces/artifact_jobs_w{workload}.csv").counting(range(160))
    outcome = Engine(
        cluster, scores, load, PalRounds(policy, cluster, scores, 1.7, order_named("fifo")), ClusterRules(round_s=360)
    ).run()
    jct, makespan = EXPECTED[policy][workload - 1]
    assert outcome.avg_jct_s == pytest.approx(jct, abs=0.01)
    assert outcome.makespan_s == pytest.approx(makespan, abs=0.01)


def test_the_command_gives_the_same_figures(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    words = [
        str(DATA / "traces/artifact_jobs_w1.csv"),
        "--cluster",
        "16x4",
        "--round",
        "360",
        "--json",
        str(path),
    ]
    words += ["--scores", str(DATA / "artifact_seed42_scores.csv"), "--locality", "1.7", "--order", "fifo"]
    for policy in EXPECTED:
        words += ["--policy", policy]
    result = CliRunner().invoke(command, words, obj=Published(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for entry in json.loads(path.read_text()):
        jct, makespan = EXPECTED[entry["policy"]][0]
        assert entry["jobs"] == 160
        assert entry["avg_jct_s"] == pytest.approx(jct, abs=0.01)
        assert entry["makespan_s"] == pytest.approx(makespan, abs=0.01)
