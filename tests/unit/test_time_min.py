"""Jobs with --time-min: where only a shorter limit fits, Slurm's backfill cuts theirs down; they go to it then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pal_slurm.model import Action, Cluster, Knowledge, Reason, Reservation, Shape, homogeneous, neutral_scores
from pal_slurm.policy import compose, plan
from pal_slurm.slurm.commands.columns import QueueRow
from pal_slurm.slurm.commands.queue import to_record
from pal_slurm.slurm.records import JobRecord, to_job
from tests.builders import NOW, leased, running, snapshot

HOUR = 3600
TWO = homogeneous(2, 4)
BOTH = Reservation("maint", frozenset({"n1", "n2"}), NOW + HOUR, NOW + 9 * HOUR)
ONE = Reservation("maint", frozenset({"n1"}), NOW + HOUR, NOW + 9 * HOUR)


def told(*jobs: Any, windows: tuple[Reservation, ...] = (), on: Cluster = TWO) -> list[tuple[int, Action, Reason]]:
    view = snapshot(*jobs, cluster=on, windows=windows)
    made = plan(view, Knowledge(neutral_scores(on)), compose("pal", patience="none"))
    return [(d.job, d.action, d.reason) for d in made.decisions]


@pytest.mark.parametrize("array", [{}, {"array_id": 1, "array_task": 3}])
def test_before_a_reservation_one_that_can_be_cut_short_goes_to_slurm(array: dict[str, int]) -> None:
    limits = {"time_limit_s": 5 * HOUR, **array}
    assert told(leased(1, **limits), windows=(BOTH,)) == [(1, Action.WAIT, Reason.NO_ROOM)]
    brief = leased(1, least_limit_s=HOUR // 2, **limits)
    assert told(brief, windows=(BOTH,)) == [(1, Action.PLAIN, Reason.CANT_PIN)]
    longer = leased(1, least_limit_s=2 * HOUR, **limits)
    assert told(longer, windows=(BOTH,)) == [(1, Action.WAIT, Reason.NO_ROOM)]


def test_where_there_is_room_for_its_whole_limit_it_is_placed_there() -> None:
    job = leased(1, least_limit_s=HOUR // 2, time_limit_s=5 * HOUR)
    ((_, action, _),) = told(job, windows=(ONE,))
    assert action is Action.START


def test_so_many_go_as_there_is_room_for() -> None:
    jobs = [leased(n, 4, least_limit_s=HOUR // 2, time_limit_s=5 * HOUR) for n in (1, 2, 3)]
    assert [action for _, action, _ in told(*jobs, windows=(BOTH,))] == [Action.PLAIN, Action.PLAIN, Action.WAIT]


def test_behind_the_head_of_the_queue_it_goes_where_it_ends_in_time() -> None:
    busy = running(9, {"n1": (0, 1)}, end=NOW + HOUR)
    head = leased(1, time_limit_s=HOUR, shape=Shape(min_nodes=2, max_nodes=2, gpus_per_node=4))
    free = TWO.gpu_free.copy()
    free[0, :2] = False
    on = replace(TWO, gpu_free=free)
    behind = leased(2, 4, time_limit_s=5 * HOUR)
    assert told(busy, head, behind, on=on)[1][1:] == (Action.WAIT, Reason.BEHIND_HEAD)
    brief = leased(2, 4, time_limit_s=5 * HOUR, least_limit_s=HOUR // 2)
    assert told(busy, head, brief, on=on)[1][1:] == (Action.PLAIN, Reason.CANT_PIN)


@pytest.mark.parametrize(("said", "least_s"), [("5:00", 300), ("1-00:00:00", 86400), ("0:00", None), ("N/A", None)])
def test_squeue_tells_it(said: str, least_s: int | None) -> None:
    texts = {"JobId": "1", "State": "PENDING", "UserName": "ann", "SubmitTime": "5", "MinTime": said}
    assert to_job(to_record(QueueRow(texts, True))).least_limit_s == least_s


def test_none_at_all_is_told_as_zero_by_pyslurm() -> None:
    assert to_job(JobRecord(1, 5, "PENDING", "ann", least_limit_min=0)).least_limit_s is None
