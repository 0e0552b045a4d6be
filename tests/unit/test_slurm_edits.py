"""Before and after an edit: what is refused, how Slurm is told which record is meant, and how its answer is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pal_slurm.model import Edit, EditResult, Job, JobState, Outcome, Pin, Renew, Request, Shape
from pal_slurm.slurm.capabilities import capabilities_of
from pal_slurm.slurm.edits.judge import judge
from pal_slurm.slurm.edits.prepare import Ready, by_id, fold_tasks, prepare_all, record_of
from pal_slurm.slurm.edits.rewrite import Rewrite
from tests.builders import NOW, leased

CAPS = capabilities_of("26.05.5")
UNTYPED = Request(per_node="gres/gpu:2", partition="gpu", max_nodes=0)
JOB = leased(5, submit=10, request=UNTYPED, shape=Shape(gpus_per_node=2))
ARRAY = replace(JOB, id=20, array_id=20, array_tasks=(0, 1, 2, 5))
SPLIT = replace(JOB, id=23, array_id=20, array_task=3)


def ready(
    *edits: Edit, jobs: tuple[Job, ...] = (JOB, ARRAY, SPLIT), shrink_off: bool = True
) -> list[Ready | EditResult]:
    return list(prepare_all(edits, by_id(jobs), CAPS, shrink_off, NOW))


def renew(job: int, task: int | None = None) -> Edit:
    return Renew(job, task=task, until=NOW + 300)


@pytest.mark.parametrize(
    ("edit", "target", "homes"),
    [
        (renew(5), "5", (5,)),
        (renew(20), "20_[0-2,5]", (20,)),
        (renew(20, task=2), "20_2", (20, 20)),
        (renew(23), "20_3", (23,)),
    ],
)
def test_slurm_is_told_the_record_that_is_meant_and_no_other(edit: Edit, target: str, homes: tuple[int, ...]) -> None:
    (item,) = ready(edit)
    assert isinstance(item, Ready)
    assert (item.target, item.homes) == (target, homes)


def test_the_rest_of_an_array_leaves_alone_the_tasks_edited_beside_it() -> None:
    rest, task = ready(renew(20), renew(20, task=1))
    assert isinstance(rest, Ready) and isinstance(task, Ready)
    assert rest.target == "20_[0,2,5]"
    assert task.turn < rest.turn  # split off first: then the rest is the whole record, and stays one


def test_an_array_whose_tasks_cant_be_told_is_not_written() -> None:
    (item,) = ready(renew(20), jobs=(replace(ARRAY, array_tasks=()),))
    assert isinstance(item, EditResult) and item.outcome is Outcome.REFUSED and "can't be told" in item.said


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        (None, Outcome.GONE),
        (replace(JOB, state=JobState.RUNNING), Outcome.STARTED),
        (replace(JOB, state=JobState.OTHER), Outcome.GONE),
    ],
)
def test_a_job_that_waits_no_more_is_never_written(job: Job | None, outcome: Outcome) -> None:
    (item,) = ready(renew(5), jobs=(job,) if job else ())
    assert isinstance(item, EditResult) and item.outcome is outcome


def test_a_node_list_is_not_sent_to_a_job_that_may_start_where_that_would_shrink_it() -> None:
    pin = Pin(5, nodes=("n1",), original=UNTYPED)
    soon = replace(JOB, eligible=NOW + 2)
    (item,) = ready(pin, jobs=(soon,), shrink_off=False)
    assert isinstance(item, EditResult) and item.outcome is Outcome.REFUSED and "disable_job_shrink" in item.said
    assert isinstance(ready(pin, jobs=(soon,), shrink_off=True)[0], Ready)
    assert isinstance(ready(pin, jobs=(JOB,), shrink_off=False)[0], Ready)


def test_tasks_are_folded_to_ranges() -> None:
    assert fold_tasks((1, 2, 3, 7, 9, 10)) == "1-3,7,9-10"
    assert fold_tasks((4,)) == "4"


def test_the_record_of_a_task_is_found_before_and_after_its_split() -> None:
    assert record_of(20, 2, by_id((ARRAY, SPLIT))) is ARRAY
    assert record_of(20, 3, by_id((ARRAY, SPLIT))) is SPLIT
    assert record_of(20, 9, by_id((ARRAY, SPLIT))) is None
    assert record_of(23, None, by_id((ARRAY, SPLIT))) is SPLIT


PIN = Pin(5, nodes=("n3",), slots=(1, 3), original=UNTYPED)
ASKED = Rewrite({"nodes": "n3", "tres_per_node": "gres/gpu:g1:1,gres/gpu:g3:1"}, min_nodes=1, max_nodes=1)
PINNED = replace(
    JOB,
    request=replace(UNTYPED, per_node="gres/gpu:g1:1,gres/gpu:g3:1", max_nodes=1),
    required_nodes="n3",
    eligible=NOW,
)
RUNNING = replace(PINNED, state=JobState.RUNNING, nodes=("n3",), gpus=((1, 3),))


@pytest.mark.parametrize(
    ("after", "outcome", "words"),
    [
        (PINNED, Outcome.DONE, ""),
        (RUNNING, Outcome.DONE, ""),
        (replace(RUNNING, gpus=((0, 1),)), Outcome.STARTED, "runs already"),
        (replace(RUNNING, nodes=("n4",)), Outcome.STARTED, "runs already"),
        (JOB, Outcome.REFUSED, "node list is ''"),
        (replace(JOB, required_nodes="n3"), Outcome.PARTIAL, "tres_per_node is 'gres/gpu:2'"),
        (replace(PINNED, eligible=NOW + 50), Outcome.PARTIAL, "start time is still 50 s away"),
        (replace(PINNED, request=replace(PINNED.request, max_nodes=4)), Outcome.PARTIAL, "most nodes are 4"),
        (replace(PINNED, request=replace(PINNED.request, max_nodes=0)), Outcome.DONE, ""),  # slurmctld was restarted
        (replace(PINNED, ntasks=4), Outcome.PARTIAL, "tasks are 4, and were 1"),
        (replace(PINNED, shape=Shape(gpus_per_node=2, cpus=0)), Outcome.PARTIAL, "CPUs are 0, and were 1"),
        (None, Outcome.GONE, "no such job"),
        (replace(PINNED, state=JobState.OTHER), Outcome.GONE, "no such job"),
    ],
)
def test_an_edit_is_judged_by_the_record_and_not_by_slurmctlds_word(
    after: Job | None, outcome: Outcome, words: str
) -> None:
    result = judge(PIN, ASKED, JOB, after, "", NOW)
    assert (result.outcome, result.after) == (outcome, after)
    assert words in result.said


def test_without_n_there_are_as_many_tasks_on_each_node_as_before() -> None:
    two = replace(PINNED, ntasks=2, request=replace(PINNED.request, min_nodes=2, max_nodes=2))
    asked = replace(ASKED, min_nodes=2, max_nodes=2)
    assert judge(PIN, asked, JOB, two, "", NOW).outcome is Outcome.DONE
    on_two = replace(PIN, nodes=("n3", "n4"))
    reckoned = replace(JOB, request=replace(UNTYPED, min_nodes=2))  # Slurm shows what it reckons with
    assert judge(on_two, asked, reckoned, two, "", NOW).outcome is Outcome.DONE
    assert judge(PIN, asked, replace(JOB, ntasks=3), replace(two, ntasks=3), "", NOW).outcome is Outcome.DONE
    assert judge(PIN, asked, replace(JOB, ntasks=3), two, "", NOW).outcome is Outcome.PARTIAL


def test_slurmctlds_own_words_come_first() -> None:
    result = judge(PIN, ASKED, JOB, JOB, "Invalid node name specified", NOW)
    assert result.outcome is Outcome.REFUSED and result.said.startswith("Invalid node name specified; node list")
