"""What scripts/demo --sharing submits, what its clusters and pald are told of pairs, and when it is no result."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from demo_lib import sharing
from demo_lib.figures import Figures, figures
from demo_lib.run import Ran
from demo_lib.speeds import make
from demo_lib.workload import DemoJob
from minicluster_lib.errors import MiniclusterError
from minicluster_lib.spec import Spec, costs_of_pairs

from pal_slurm.config import load, told_pairs
from pal_slurm.model import JobKind, Sharers

SPEEDS = make(2, 4, 1, slow_cards=False)


def test_only_jobs_of_one_gpu_say_that_they_may_share() -> None:
    jobs = sharing.make(60, 24, 2, 1.5, 30.0)
    assert {("pal:share" in job.says) for job in jobs if job.gpus > 1} == {False}
    assert all("pal:share" in job.says for job in jobs if job.gpus == 1)
    assert 35 < sum(job.gpus == 1 for job in jobs) < 55
    assert (
        any("--comment=app:" in word and word.endswith(" pal:share") for word in jobs[0].sbatch("/out"))
        or jobs[0].gpus > 1
    )


def test_the_clusters_truth_is_what_pald_is_told(tmp_path: Path) -> None:
    words = sharing.up()
    truth = costs_of_pairs(words[words.index("--pairs") + 1])
    pald = sharing.arms(tmp_path / "pal.yaml")[sharing.SHARING].pald
    assert pald is not None
    config = load(Path(pald[pald.index("--pal-yaml") + 1]))
    assert config.sharing.enabled
    told = told_pairs(config, ("a100",))
    for one, others in truth.items():
        for other, factor in others.items():
            assert told[Sharers(JobKind(one, 1), JobKind(other, 1), "a100")] == factor
    arms = sharing.arms(tmp_path / "x")
    palds = [arm.pald[-1] for name, arm in arms.items() if arm.pald and name != sharing.SHARING]
    assert len(palds) == 2 and not any(load(Path(told_to)).sharing.enabled for told_to in palds)


@pytest.mark.parametrize(
    "wrong", ["resnet=1.4/1.2", "resnet+bert=1.4", "resnet+bert=0.5/1", "a b+c=1/1", "a+b=x/1", "a+b=1/nan"]
)
def test_pairs_of_a_mini_cluster_that_can_not_be_are_refused(wrong: str) -> None:
    with pytest.raises(MiniclusterError, match="--pairs"):
        costs_of_pairs(wrong)
    with pytest.raises(MiniclusterError, match="add --shards"):
        Spec("x", pairs={"a": {"b": 1.5}})


def verdict(shared_s: float, *, beside: float = 1.2, says: tuple[str, ...] = ("pal:share",), jobs: int = 2) -> int:
    job = DemoJob(1, 0.0, "bert", 1, 100, says=says)
    alone = Ran(job, 0.0, 100.0, 90.0, 90.0, (("n1", "g0"),))
    both = [alone, replace(alone, job=replace(job, number=2))]
    shared = [replace(one, ended=shared_s, beside=beside) for one in both][:jobs]
    ran = {name: shared if name == sharing.SHARING else both for name in sharing.RUNS}
    results: dict[str, Figures] = {name: figures(of, SPEEDS) for name, of in ran.items()}
    return sharing.verdict(Console(quiet=True), results, ran)


def test_it_is_a_result_where_the_same_jobs_were_done_sooner_and_only_those_shared_that_said_so() -> None:
    assert verdict(80.0) == 0
    assert verdict(95.0) == 1  # hardly sooner
    assert verdict(80.0, jobs=1) == 1
    assert verdict(80.0, says=()) == 1
    assert verdict(80.0, says=(), beside=1.0) == 0
