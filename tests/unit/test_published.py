"""`python -m benchmarks.published`: what it shares with `palctl simulate`, and what its schedulers are made of."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.published import pool_assignment
from benchmarks.published.policies import NAMES, Published, PublishedSpec, scheduler_for
from benchmarks.published.pool_assignment import NOT_THERE, best
from pal_slurm.cli.commands.simulate import command
from pal_slurm.errors import ConfigError
from pal_slurm.model import FloatArray, neutral_scores
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.engine import ClusterRules
from pal_slurm.sim.policies import Setting

TRACE = "synthetic:jobs=40,per_hour=40,most_gpus=4,shortest_min=2,longest_min=20"
WORDS = [TRACE, "--cluster", "4x4", "--restart-cost", "30", "--tracked", "30"]


def told(path: Path, policies: Published | None, *words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(command, [*WORDS, *words, "--json", str(path)], obj=policies)
    assert done.exit_code == 0, done.output
    found = json.loads(path.read_text())
    assert isinstance(found, list)
    return found


def test_one_command_compares_and_says_of_a_policy_of_ours_what_palctl_simulate_says(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    [alone] = told(path, None, "--policy", "packed")
    theirs, ours = told(path, Published(), "--fill", "easy", "--policy", "artifact/packed-sticky", "--policy", "packed")
    assert set(theirs) == set(alone) and theirs["policy"] == "artifact/packed-sticky"
    unlike = {"cpu_s", "ratio_to_first", "ci95"}
    assert {k: v for k, v in ours.items() if k not in unlike} == {k: v for k, v in alone.items() if k not in unlike}


def test_under_pald_run_those_that_pald_has(tmp_path: Path) -> None:
    policies = ("--policy", "artifact/packed-sticky", "--policy", "packed", "--fill", "easy", "--no-moves")
    found = told(tmp_path / "out.json", Published(), *policies, "--daemon")
    assert [entry["policy"] for entry in found] == ["artifact/packed-sticky", "packed", "packed, pald"]


def test_palctl_simulate_has_none_of_them_also_after_the_other_command_has_run(tmp_path: Path) -> None:
    told(tmp_path / "out.json", Published(), "--policy", "reassign")
    for name in NAMES:
        done = CliRunner().invoke(command, [*WORDS, "--policy", name])
        assert isinstance(done.exception, ConfigError), name
        assert ("benchmarks.published" in str(done.exception)) == name.startswith("artifact/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy: artifact/pal\nround_s: 60", "round_s: seconds, of artifact/gavel-las"),
        ("policy: artifact/gavel-las\nround_s: -1", "round_s"),
        ("policy: artifact/gavel-las\nshares_last_s: .inf", "shares_last_s"),
        ("policy: artifact/dally\nleases: [0, 24, 6, 12]", "a lease has a length"),
        ("policy: artifact/pal\nplacement: lv", "leave placement, patience and moving out"),
        ("policy: artifact/gavel-las\nmoving: value", "leave placement, patience and moving out"),
        ("policy: reassign\nfill: hole", "no fill 'hole'"),
        ("policy: reassign\norder: shortest", "no order 'shortest'"),
        ("policy: gavel-owed/cost\nprices: {h100: 3}", "no GPU model 'h100'"),
        ("policy: gavel-owed/cost\nprices: {a: 0}", "prices.a: 0 can't be"),
        ("policy: reassign\nweights: {ml: 2}", "weights and prices are for gavel-owed/OBJECTIVE"),
        ("policy: gavel-owed/gold", "no policy 'gavel-owed/gold'"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path, cluster = tmp_path / "mine.yaml", parse_cluster("2x2")
    path.write_text(text + "\n")
    with pytest.raises(ConfigError, match=said):
        scheduler_for(
            Published().read(str(path)), Setting(cluster, 1.7, ClusterRules(), True), neutral_scores(cluster), 0
        )


def test_every_policy_has_a_scheduler_that_bears_its_label() -> None:
    cluster = parse_cluster("a:2x2+b:2x2")
    setting = Setting(cluster, 1.7, ClusterRules(), True)
    for name in NAMES:
        made = scheduler_for(PublishedSpec(policy=name, name=f"my {name}"), setting, neutral_scores(cluster), 0)
        assert made.name == f"my {name}"


def drawn(seed: int, jobs: int) -> FloatArray:
    draw = np.random.default_rng(seed)
    worth = draw.uniform(1, 20, (jobs, 3))
    worth[draw.random((jobs, 3)) < 0.2] = NOT_THERE
    return worth


def summed(worth: FloatArray, sizes: list[int], pools: tuple[int, ...]) -> float:
    return sum(float(worth[job, pool]) * sizes[job] for job, pool in enumerate(pools) if pool >= 0)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sizes", [[1] * 6, [2] * 6, [1, 2, 4, 1, 2, 1]], ids=str)
def test_no_assignment_of_jobs_to_pools_is_worth_more(seed: int, sizes: list[int]) -> None:
    worth, gpus = drawn(seed, 6), [4, 3, 4]
    fits = [
        pools
        for pools in itertools.product((-1, 0, 1, 2), repeat=6)
        if all(sum(n for n, p in zip(sizes, pools, strict=True) if p == pool) <= gpus[pool] for pool in range(3))
    ]
    most = max(summed(worth, sizes, pools) for pools in fits)
    found = best(worth, np.array(sizes), gpus, np.full(6, -1))
    pools = tuple(found.pools.tolist())
    assert found.proven and pools in fits
    assert most * (1 - 2 * pool_assignment.GAP) <= summed(worth, sizes, pools) <= most + 1e-6


def test_a_solver_without_time_leaves_every_job_where_it_is() -> None:
    sizes = np.random.default_rng(0).choice([1, 2, 3, 5, 7], 60)
    now = np.arange(60) % 2
    used = [int(sizes[now == pool].sum()) for pool in (0, 1)]
    found = best(drawn(1, 60) + 2 * abs(NOT_THERE), sizes, [*used, used[0]], now, most_s=0.0)
    assert not found.proven and (found.pools == now).all()
