"""What jobs got, also of jobs whose devices Slurm has already taken away."""

from __future__ import annotations

from dataclasses import replace

from pal_slurm.daemon.observe import FEWEST, Observer
from pal_slurm.model import Apps, Knowledge, homogeneous, neutral_scores
from pal_slurm.store import OutcomeRepo, Store
from tests.builders import running

CLUSTER = homogeneous(4, 4)
KNOWLEDGE = Knowledge(neutral_scores(CLUSTER), Apps())
JOB = running(7, {"n2": (0, 1)}, submit=500, start=510)


def test_a_job_whose_node_fails_has_no_devices_while_it_completes_and_that_is_its_end(store: Store) -> None:
    """Seen on 26.05: a node stops answering at the launch, and until it is given up the job completes there."""
    outcomes = OutcomeRepo(store, "c")
    observer = Observer(outcomes)
    assert observer.record_changes((JOB,), CLUSTER, KNOWLEDGE, {}, 511.0) == 1
    assert observer.record_changes((replace(JOB, gpus=((),)),), CLUSTER, KNOWLEDGE, {}, 531.0) == 1
    assert [(o.gpus, o.end) for o in outcomes.of_job(7)] == [(((0, 1),), 531)]


def test_a_job_first_seen_without_its_devices_is_written_down_when_they_are_told(store: Store) -> None:
    outcomes = OutcomeRepo(store, "c")
    observer = Observer(outcomes)
    several = replace(JOB, nodes=("n2", "n3"), gpus=((0, 1), ()))
    assert observer.record_changes((several,), CLUSTER, KNOWLEDGE, {}, 511.0) == 0
    assert observer.record_changes((replace(several, gpus=((0, 1), (2, 3))),), CLUSTER, KNOWLEDGE, {}, 512.0) == 1
    assert outcomes.of_job(7)[0].gpus == ((0, 1), (2, 3))


def test_the_share_of_limits_that_jobs_use_is_the_median_of_those_that_were_seen_to_end(store: Store) -> None:
    observer = Observer(OutcomeRepo(store, "c"))
    assert observer.of_limit is None
    for i in range(FEWEST):
        ran = replace(JOB, id=100 + i, start=1000, time_limit_s=400)
        endless = replace(JOB, id=500 + i, start=1000, time_limit_s=None)
        observer.record_changes((ran, endless), CLUSTER, KNOWLEDGE, {}, 1001.0)
        assert observer.of_limit is None
        observer.record_changes((), CLUSTER, KNOWLEDGE, {}, 1100.0 if i % 3 else 9000.0)  # a third to their limits
    assert observer.of_limit == 0.25
