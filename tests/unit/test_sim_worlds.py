"""Clusters, profiles, synthetic draws and score files of the simulator."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pal_slurm.errors import BadInput, ConfigError
from pal_slurm.scores import RunTime, believable, score_runs
from pal_slurm.sim.clusters import parse_cluster
from pal_slurm.sim.policies import read_policy
from pal_slurm.sim.profiles import draw_nodes, draw_rows, read_runs, read_scores
from pal_slurm.sim.synthetic import parse_recipe, synthetic_scores, synthetic_workload
from pal_slurm.sim.traces import Options
from pal_slurm.sim.worlds import Sources, Worlds


def test_clusters_may_mix_models_and_widths() -> None:
    cluster = parse_cluster("v100:2x4+k80:3x2/2")
    assert (cluster.n_nodes, cluster.n_gpus, cluster.models) == (5, 14, ("v100", "k80"))
    assert cluster.rack.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("text", ["", "16", "0x4", "16x0", "16x4x2", "16x4/x", "-1x4", "999999x99"])
def test_what_is_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_cluster(text)


def test_synthetic_worlds_are_the_same_for_the_same_seed() -> None:
    with pytest.raises(BadInput, match=r"jobs=7777.* must be 1 to"):
        parse_recipe(f"synthetic:jobs={'7' * 900}")
    recipe = parse_recipe("synthetic:jobs=40,per_hour=3,arrivals=diurnal")
    one, two, other = (synthetic_workload(recipe, Options(), seed) for seed in (1, 1, 2))
    assert [(w.submit, w.gpus, w.steps, w.app.cls) for w in one.works] == [
        (w.submit, w.gpus, w.steps, w.app.cls) for w in two.works
    ]
    assert [w.submit for w in one.works] != [w.submit for w in other.works]
    assert (synthetic_scores(8, 4, 3) == synthetic_scores(8, 4, 3)).all()


def test_the_share_of_the_jobs_that_may_be_moved_is_drawn_by_the_seed() -> None:
    load = synthetic_workload(parse_recipe("synthetic:jobs=2000"), Options(), 0)
    one, two, other = (load.movable(0.25, seed) for seed in (1, 1, 2))
    may = [[w.requeue for w in drawn.works] for drawn in (one, two, other)]
    assert may[0] == may[1] != may[2]
    assert 0.2 < sum(may[0]) / len(may[0]) < 0.3
    assert not any(w.requeue for w in load.movable(0.0, 1).works)
    assert load.movable(1.0, 1) is load


def test_the_jobs_that_count_are_named_by_their_places() -> None:
    load = synthetic_workload(parse_recipe("synthetic:jobs=40"), Options(), 0)
    assert load.counting(range(10, 20)).tracked == range(10, 20)
    assert load.counting(range(30, 90)).tracked == range(30, 40)
    assert load.counting(None).tracked == range(40)
    with pytest.raises(BadInput, match="The trace has 40 jobs; none of 40 to 49"):
        load.counting(range(40, 50))


def test_of_a_long_trace_each_seed_takes_other_jobs_in_a_row(tmp_path: Path) -> None:
    rows = [f"{i},{100 * i},1,{60 + i},1,A" for i in range(300)]
    trace = tmp_path / "jobs.csv"
    trace.write_text("\n".join(["job_id,submit_s,gpus,iterations,s_per_iteration,class", *rows]) + "\n")
    draws = Worlds(Sources(str(trace), window=50), parse_cluster("2x2"))
    loads = [draws(seed).load for seed in range(5)]
    for load in loads:
        ids = [work.id for work in load.works]
        assert ids == list(range(ids[0], ids[0] + 50)) and load.tracked == range(50)
        assert [work.submit for work in load.works] == [100.0 * i for i in range(50)]
    assert len({load.works[0].id for load in loads}) > 1
    assert draws(1).load.works[0].id == loads[1].works[0].id
    assert len(Worlds(Sources(str(trace), window=301), parse_cluster("2x2"))(0).load.works) == 300


def test_synthetic_scores_differ_between_nodes_more_than_within() -> None:
    logs = np.log(synthetic_scores(200, 4, 0)[0])
    assert logs.mean(axis=1).var() / logs.var() > 0.8


@pytest.mark.parametrize(
    "text", ["synthetic:jobs=0", "synthetic:colour=red", "synthetic:jobs=many", "synthetic:arrivals=x"]
)
def test_a_recipe_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_recipe(text)


def test_one_stalled_run_makes_no_slow_gpu_and_slowness_in_every_run_does() -> None:
    runs = [RunTime(f"g{g}", "n", 10.0) for g in range(8) for _ in range(4)]
    runs += [RunTime("stalled", "n", t) for t in (10.0, 28.0, 10.1)]
    runs += [RunTime("slow", "n", t) for t in (15.0, 15.2, 14.9)]
    scores = score_runs(runs)
    assert scores["stalled"].score == pytest.approx(1.005)
    assert scores["stalled"].stalls == 1
    assert scores["slow"].score == pytest.approx(1.5)
    assert scores["slow"].stalls == 0


def test_scores_that_are_mostly_noise_are_pulled_to_one_and_a_slow_card_is_not() -> None:
    rng = np.random.default_rng(0)
    runs = [RunTime(f"g{g}", "n", float(rng.normal(10, 0.4))) for g in range(60) for _ in range(5)]
    runs += [RunTime("slow", "n", float(rng.normal(15, 0.4))) for _ in range(5)]
    raw = score_runs(runs)
    pulled = believable(raw)
    spread = [abs(pulled[f"g{g}"].score - 1) for g in range(60)]
    assert max(spread) < 0.5 * max(abs(raw[f"g{g}"].score - 1) for g in range(60))
    assert pulled["slow"].score == raw["slow"].score


def test_whole_nodes_are_drawn_with_a_median_of_one() -> None:
    profile = score_runs(RunTime(f"{n}-{g}", f"n{n}", 10 + n / 10) for n in range(12) for g in range(4))
    cube = draw_nodes([profile], 6, 4, 1)
    assert cube.shape == (1, 6, 4)
    assert (cube[0] == cube[0][:, :1]).all()
    assert np.median(cube) == 1.0
    with pytest.raises(BadInput, match="No measured node has 8 GPUs"):
        draw_nodes([profile], 6, 8, 1)


def test_rows_are_drawn_per_gpu_and_class_as_the_artifact_does() -> None:
    a, b = ([RunTime(str(i), "n", float(i)) for i in range(1, 4)] for _ in range(2))
    cube = draw_rows([a, b], 2, 2, 42)
    assert cube.shape == (2, 2, 2)
    assert set(np.unique(cube)) <= {0.5, 1.0, 1.5}


SCORES = "gpu,node,class_a\n0,0,1.0\n1,0,1.1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu,node\n0,0\n", "class_a: missing; a file with one row per GPU"),
        ("gpu,node,class_a\n0,0,-1\n", ":2: class_a: -1 must be more than zero"),
        ("gpu,node,class_a\n0,0,inf\n", ":2: class_a: is infinite"),
        ("gpu,node,class_a\n0,0,1\n0,0,1\n", ":3: gpu: '0' comes twice"),
        ("gpu,node,class_a\n0,0,200\n", ":2: class_a: 200 can't be true"),
        ("gpu,node,class_a\n0,0,1\n", "the cluster is 1x2"),
    ],
)
def test_bad_scores_are_refused_with_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_scores(path, 1, 2)
    assert said in str(caught.value)


def test_true_scores_may_be_a_file_that_was_imported(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("node,slot,class,score\nn1,1,A,1.2\nn1,0,A,1.0\nn2,0,A,0.9\nn2,1,A,1.1\nn2,1,B,1.3\n")
    table = read_scores(path, 2, 2)
    assert table.classes == ("A", "B")
    assert table.score.tolist() == [[[1.0, 1.2], [0.9, 1.1]], [[1.0, 1.0], [1.0, 1.3]]]


def test_the_first_seed_takes_a_scores_file_as_it_is_and_others_shuffle_its_nodes(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("gpu,node,class_a\n" + "".join(f"{g},{g},{1 + g / 50}\n" for g in range(20)))
    worlds = Worlds(Sources("synthetic:jobs=5", scores=path), parse_cluster("20x1"), first=3)
    first, other = worlds(3).truth.score, worlds(4).truth.score
    assert first.ravel().tolist() == [1 + g / 50 for g in range(20)]
    assert first.ravel().tolist() != other.ravel().tolist()
    assert sorted(first.ravel().tolist()) == sorted(other.ravel().tolist())


def test_a_policy_file_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("policy: packed\norder: fifo\n")
    spec = read_policy(str(path))
    assert (spec.label, spec.policy, spec.order) == ("mine", "packed", "fifo")
    path.write_text("policy: packed\nodrer: las\n")
    with pytest.raises(ConfigError, match="odrer"):
        read_policy(str(path))
    with pytest.raises(ConfigError, match="There is no policy 'pall'"):
        read_policy("pall")
    path.write_text("policy: artifact/pal\n")
    for published in ("artifact/gavel-las", str(path)):
        with pytest.raises(ConfigError, match=r"no policy 'artifact/\S+' here; `python -m benchmarks.published`"):
            read_policy(published)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("u2,,1.0", "line 3, node: names no node"),
        ("u2,Unknown,1.0", "line 3, node: names no node"),
        ("u2,N/A,1.0", "line 3, node: names no node"),
        (",n1,1.0", "line 3, uuid: is empty"),
        ("u2,n1,1e99", "line 3, perf: 1e99 must be at most"),
    ],
)
def test_run_times_of_gpus_that_nobody_can_place_are_refused(tmp_path: Path, row: str, said: str) -> None:
    """Those of unknown nodes would be neighbours in one node."""
    (tmp_path / "runs.csv").write_text(f"uuid,node,perf\nu1,n1,1.0\n{row}\n")
    with pytest.raises(BadInput, match=re.escape(said)):
        read_runs(tmp_path / "runs.csv")
