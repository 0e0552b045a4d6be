"""A trace through pald on a simulated Slurm: nothing is lost, and what pald costs is told."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.model import App, Cluster, EditKind, Speeds, neutral_scores
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.daemon import Effort
from pal_slurm.sim.engine import ClusterRules, Engine
from pal_slurm.sim.outcome import TraceOutcome
from pal_slurm.sim.policies import PolicySpec, Setting, scheduler_for
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.machine import nodes_of, words_of
from pal_slurm.sim.slurm.setup import SlurmSetup
from pal_slurm.sim.with_daemon import run
from pal_slurm.sim.workload import Work, workload
from pal_slurm.sim.worlds import Sources, World, Worlds

CLUSTER = parse_cluster("4x4")
TRACE = "synthetic:jobs=25,per_hour=40,most_gpus=4,shortest_min=2,longest_min=20"
COMMAND = ("simulate", TRACE, "--cluster", "4x4", "--daemon")


def world(cluster: Cluster = CLUSTER) -> World:
    return Worlds(Sources(TRACE), cluster)(0)


def under_pald(**keys: str) -> tuple[TraceOutcome, Effort]:
    named = {key.replace("__", "."): value for key, value in keys.items()}
    return run(PolicySpec(policy="pal", fill="easy"), Setting(CLUSTER, 1.7, ClusterRules(), False), world(), named)


def test_every_job_runs_once_and_not_faster_than_its_gpus_can() -> None:
    outcome, effort = under_pald()
    drawn = world()
    truth = Speeds(CLUSTER, drawn.truth)
    best = [work.steps * min(truth.step(work.app, (g,)) for g in range(16)) for work in drawn.load.works]
    assert outcome.job_ids.size == 25
    assert (outcome.start_s >= outcome.submit_s).all()
    assert (outcome.end_s - outcome.start_s >= [0.99 * seconds for seconds in best]).all()
    assert effort.done(EditKind.PIN, EditKind.PLAIN) == 25
    assert effort.ends.keys() == {"ok"}


@pytest.mark.parametrize("shape", ["8x2", "8x2/2", "8x2/2/4", "16x2/2/4/8"])
def test_pald_sees_every_level_of_the_network_as_the_bare_policy_does(shape: str) -> None:
    cluster = parse_cluster(shape)
    controller = Controller(nodes_of(cluster), {"gpu": cluster.node_names}, SlurmSetup(), 0.0)
    seen = SimSlurm(controller, words_of(cluster)).snapshot().cluster
    assert seen.rack.tolist() == cluster.rack.tolist()
    assert [level.tolist() for level in seen.above] == [level.tolist() for level in cluster.above]
    assert len(seen.above) == max(shape.count("/") - 1, 0)


MIXED = parse_cluster("fast:3x2+slow:3x2")
APPS = tuple(App(f"a{n}", "A", {"fast": 1.0, "slow": slow}) for n, slow in enumerate((1.1, 2.0, 5.0)))


@pytest.mark.parametrize("policy", ["pal", "gavel/max-min"])
def test_on_several_gpu_models_a_bare_policy_is_what_pald_does(policy: str) -> None:
    """Which model a job takes, whether it waits for one, and who is owed what."""
    rng = random.Random(5)
    works = [
        Work(n, 60.0 * n, rng.choice((1, 1, 2)), 60.0 * rng.randint(3, 30), APPS[n % 3], 9_000, f"u{rng.randrange(4)}")
        for n in range(40)
    ]
    scores = neutral_scores(MIXED)
    drawn = World(workload(works), scores, scores)
    spec, setting = PolicySpec(policy=policy, fill="easy"), Setting(MIXED, 1.7, ClusterRules(), False)
    bare = Engine(MIXED, scores, drawn.load, scheduler_for(spec, setting, scores, 0), setting.rules).run()
    pald, _ = run(spec, setting, drawn, {})
    assert pald.avg_jct_s == pytest.approx(bare.avg_jct_s, rel=0.02)


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = under_pald()[0], under_pald()[0]
    assert (one.start_s == other.start_s).all() and (one.end_s == other.end_s).all()


def test_a_budget_that_is_too_small_is_seen_in_the_waiting() -> None:
    plenty, scant = under_pald()[0], under_pald(budget__edits_per_s="0.01", budget__start_share="0")
    assert scant[1].put_off == 0 or scant[0].avg_jct_s >= plenty.avg_jct_s
    slow, _ = under_pald(cycle__interval_s="60", budget__read_share="0.00002")
    assert slow.avg_jct_s > plenty.avg_jct_s + 5


def test_palctl_shows_what_pald_costs(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    done = CliRunner().invoke(palctl, [*COMMAND, "--policy", "packed", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert "packed, pald" in done.output and "average JCT, lost" in done.output
    bare, pald = msgspec.json.decode(file.read_bytes())
    assert "daemon" not in bare and pald["policy"] == "packed, pald"
    lost = pald["daemon"]["avg_jct_s_lost_percent"]
    assert lost == pytest.approx(100 * (pald["avg_jct_s"] / bare["avg_jct_s"] - 1))
    assert -2 < lost < 5 and pald["daemon"]["starts"] == 25 and pald["daemon"]["cycles"] > 25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--policy", "artifact/pal"], "python -m benchmarks.published"),
        (["--moves"], "pald moves no running jobs"),
        (["--set", "interval=3"], "SECTION.KEY=VALUE"),
        (["--set", "policy.name=packed"], "can be set here"),
        (["--set", "cycle.interval_s=fast"], "Expected `float`"),
        (["--set", "cycle.gap=3"], "unknown field"),
    ],
)
def test_what_pald_can_not_do_is_said(options: list[str], said: str) -> None:
    done = CliRunner().invoke(palctl, [*COMMAND, *options])
    assert done.exit_code != 0
    assert said in done.output + str(done.exception)
