"""Somebody edits a job while it waits with a part of a GPU: his word stands, and what pald had written goes (P2)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.daemon.undo import ours, undo
from pal_slurm.model import EditKind, Outcome
from pal_slurm.sim.slurm.trouble import AnswerFate
from pal_slurm.slurm.nodes import PartitionRecord
from tests.builders import scores
from tests.simpald import Crash, House
from tests.unit.test_daemon_crashes import Fuse, armed
from tests.unit.test_daemon_sharing import KNOWN, ONE, SHARES, asked

TWO_NODES = replace(KNOWN, scores=scores(A=[[1.0] * 4] * 2))


@pytest.fixture
def make(tmp_path: Path, sqlite_template: Path) -> Iterator[Callable[[], House]]:
    """Two nodes of four GPUs, each of two parts, with pald."""
    made: list[House] = []

    def new() -> House:
        keys: dict[str, Any] = {"count": 2, "shards": 2, "knowledge": TWO_NODES, "sharing": {"enabled": True}}
        made.append(House(tmp_path / f"h{len(made)}", sqlite_template, **keys))
        return made[-1]

    yield new
    for house in made:
        house.kill()


@pytest.fixture
def house(make: Callable[[], House]) -> House:
    return make()


@pytest.fixture
def stock(make: Callable[[], House]) -> House:
    """The same without pald."""
    found = make()
    found.lua_alive = False
    return found


def waiting(house: House, *form: str) -> int:
    """A job with a part of a GPU, which Slurm has not looked at yet."""
    job = house.submit(*(form or ("--gres=gpu:1",)), "--mem=1000", "--time=60", SHARES, runs=3000)
    house.pald.cycle()
    record = house.job(job).record
    assert record.per_node.startswith("gres/shard:g") and record.required_nodes
    return job


def stands(house: House, job: int) -> Mapping[str, Any]:
    r = house.job(job).record
    return {
        "per_node": r.per_node, "per_job": r.per_job, "per_task": r.per_task, "required_nodes": r.required_nodes,
        "num_nodes": r.num_nodes or 1, "partition": r.partition, "features": r.features,
        "excluded_nodes": r.excluded_nodes, "time_limit_min": r.time_limit_min, "dependency": r.dependency,
    }  # fmt: skip


FORMS = {"per node": ("--gres=gpu:1",), "of the job": ("--gpus=1",), "per task": ("-n1", "--gpus-per-task=1")}
TAKEN_BACK: dict[str, dict[str, Any]] = {
    "other nodes": {"required_nodes": "n2"},
    "no nodes": {"required_nodes": ""},
    "two GPUs": {"per_node": "gres/gpu:2"},
    "two nodes": {"num_nodes": 2, "max_nodes": 2},
    "up to two nodes": {"max_nodes": 2},
    "no pal:share": {"comment": "app:sweep"},
    "the node to itself": {"exclusive": True},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("edit", TAKEN_BACK.values(), ids=TAKEN_BACK)
def test_who_asks_for_something_else_gets_that_and_his_whole_gpu(
    house: House, stock: House, edit: dict[str, Any], form: tuple[str, ...]
) -> None:
    alone = stock.submit(*form, "--mem=1000", "--time=60", SHARES, runs=3000)
    stock.user_edits(alone, **edit)
    expected = stands(stock, alone)
    job = waiting(house, *form)
    house.user_edits(job, **edit)
    house.pald.cycle()
    assert stands(house, job) == expected
    (unpin,) = house.intents(job, EditKind.UNPIN)
    assert unpin.outcome is Outcome.DONE
    house.live(60)
    stock.alone(60)
    assert house.state(job) == stock.state(alone)
    if stock.state(alone) == "RUNNING":
        assert [len(gpus) for gpus in house.where(job).values()] == [len(g) for g in stock.where(alone).values()]
        if edit.get("required_nodes"):
            assert set(house.where(job)) == {"n2"}


LEFT = {
    "a longer time limit": {"time_limit_min": 600},
    "a shorter time limit": {"time_limit_min": 5},
    "a node that it would not have had": {"excluded_nodes": "n2"},
    "more to say": {"comment": "app:sweep pal:share and more"},
}


@pytest.mark.parametrize("edit", LEFT.values(), ids=LEFT)
def test_what_has_nothing_to_do_with_the_part_stands_and_the_part_too(house: House, edit: dict[str, Any]) -> None:
    job = waiting(house)
    before = stands(house, job)
    house.user_edits(job, **edit)
    house.live(30)
    assert house.state(job) == "RUNNING" and house.job(job).job().parts
    assert house.job(job).record.per_node == before["per_node"] and house.intents(job, EditKind.UNPIN) == []
    assert all(getattr(house.job(job).record, name) == value for name, value in edit.items())


IMPOSSIBLE = {
    "a feature that only others have": ({"features": "rack2"}, "n2"),
    "not on its node": ({"excluded_nodes": "n1"}, "n2"),
    "another partition": ({"partition": "other"}, "n2"),
}


@pytest.mark.parametrize(("edit", "goes_to"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_where_it_may_not_be_any_more_it_starts_elsewhere_and_the_edit_stands(
    house: House, edit: dict[str, Any], goes_to: str
) -> None:
    house.controller.nodes[1].features = "rack2"
    house.controller.partitions.append(PartitionRecord("other", "n2"))
    job = waiting(house)
    assert house.job(job).record.required_nodes == "n1"
    house.user_edits(job, **edit)
    house.live(60)
    assert house.state(job) == "RUNNING" and set(house.where(job)) == {goes_to}
    assert all(getattr(house.job(job).record, name) == value for name, value in edit.items())


def test_a_partition_that_was_edited_while_it_waited_stands_when_the_pin_is_taken_back(house: House) -> None:
    house.controller.partitions.append(PartitionRecord("other", "n1,n2"))
    job = waiting(house)
    house.user_edits(job, partition="other", comment="app:sweep")
    house.pald.cycle()
    assert (asked(house, job), house.job(job).record.partition) == ("gres/gpu:1", "other")


def test_who_is_held_gets_his_whole_gpu_and_starts_when_he_is_released(house: House) -> None:
    job = waiting(house, "--gpus=1")
    house.controller.hold(job)
    house.alone(6)
    house.pald.cycle()
    record = house.job(job).record
    assert (record.per_node, record.per_job, record.required_nodes) == ("", "gres/gpu:1", "")
    house.user_edits(job, required_nodes="n2")
    house.live(30)
    assert house.state(job) == "PENDING" and house.job(job).record.required_nodes == "n2"
    house.job(job).held = False
    house.user_edits(job, priority=100, reason="None")
    house.live(60)
    assert house.state(job) == "RUNNING" and set(house.where(job)) == {"n2"} and not house.job(job).job().parts


def test_who_waits_for_another_job_has_his_whole_gpu_until_then(house: House) -> None:
    other = house.submit("--gres=gpu:1", "--time=60", runs=100)
    house.live(15)
    job = waiting(house)
    house.job(job).waits_for = frozenset({other})
    house.user_edits(job, dependency=f"afterany:{other}(unfulfilled)", eligible=None, reason="Dependency")
    house.live(60)
    assert house.state(job) == "PENDING" and asked(house, job) == "gres/gpu:1"
    house.live(120)
    assert house.state(job) == "RUNNING"


def test_a_requeued_job_gets_back_what_it_asked_for_last_not_what_it_was_submitted_with(house: House) -> None:
    job = house.submit("--gres=gpu:2", "--mem=1000", "--time=60", SHARES, runs=3000)
    house.user_edits(job, per_node="gres/gpu:1")
    house.live(15)
    assert house.state(job) == "RUNNING"
    assert asked(house, job) == "gres/gpu:g0:1"  # no part: its mark could not give back what it asks for
    house.controller.requeue(job)
    house.alone(5)
    house.pald.cycle()
    assert (asked(house, job), house.job(job).record.required_nodes) == ("gres/gpu:1", "")


@pytest.mark.parametrize("nodes", ["n2", ""])
def test_a_requeued_job_whose_nodes_somebody_edits_before_pald_looks_is_no_part_there(house: House, nodes: str) -> None:
    job = waiting(house)
    house.live(15)
    assert set(house.where(job)) == {"n1"}
    house.controller.requeue(job)
    house.alone(5)
    house.user_edits(job, required_nodes=nodes)
    house.pald.cycle()
    assert (asked(house, job), house.job(job).record.required_nodes) == ("gres/gpu:1", nodes)
    if nodes:
        house.live(200)
        assert house.state(job) == "RUNNING" and not house.job(job).job().parts


def test_nodes_that_are_named_between_two_looks_at_an_undo_stay(house: House) -> None:
    """Taken back for another reason, and in the moment in which that is written."""
    job = waiting(house)
    house.user_edits(job, comment="app:sweep")
    house.watch.before["apply"] = lambda: house.user_edits(job, required_nodes="n2")
    house.pald.cycle()
    house.watch.before.clear()
    assert (asked(house, job), house.job(job).record.required_nodes) == ("gres/gpu:1", "n2")


def test_a_crash_at_any_write_leaves_the_users_nodes_and_no_part_there(
    make: Callable[[], House], monkeypatch: pytest.MonkeyPatch
) -> None:
    def an_edit(house: House) -> int:
        job = waiting(house)
        house.user_edits(job, required_nodes="n2")
        house.pald.cycle()
        return job

    counted, fuse = make(), Fuse()
    with armed(counted, fuse, monkeypatch):
        an_edit(counted)
    assert fuse.passed > 8
    for at in range(1, fuse.passed + 1):
        house = make()
        with suppress(Crash, AssertionError), armed(house, Fuse(at), monkeypatch):
            an_edit(house)
        (job,) = (job.record.id for job in house.controller.pending.values())
        house.user_edits(job, required_nodes="n2")
        house.restart()
        house.pald.cycle()
        assert (asked(house, job), house.job(job).record.required_nodes) == ("gres/gpu:1", "n2"), f"at write {at}"
        house.live(200)
        assert house.state(job) == "RUNNING" and not house.job(job).job().parts, f"crash at write {at}"
        assert set(house.where(job)) == {"n2"}, f"crash at write {at}"


def test_an_undo_of_which_only_the_first_fields_came_through_is_done_whole(house: House) -> None:
    job = waiting(house, "--gpus=1")
    house.user_edits(job, required_nodes="n2")
    house.watch.fates = [AnswerFate.HALF]
    house.pald.cycle()
    assert (asked(house, job), house.job(job).record.per_job) == ("", "")
    house.pald.cycle()
    record = house.job(job).record
    assert (record.per_node, record.per_job, record.required_nodes) == ("", "gres/gpu:1", "n2")


def test_a_whole_gpu_by_slot_is_given_back_too_on_the_nodes_that_somebody_names(house: House) -> None:
    """On n2 another slot may be the only one that is free."""
    job = house.submit("--gres=gpu:1", "--mem=1000", "--time=60", "--comment=app:sweep", runs=3000)
    house.pald.cycle()
    assert (asked(house, job), house.job(job).record.required_nodes) == ("gres/gpu:g0:1", "n1")
    house.user_edits(job, required_nodes="n2")
    house.pald.cycle()
    assert (asked(house, job), house.job(job).record.required_nodes) == ("gres/gpu:1", "n2")
    house.live(60)
    assert house.state(job) == "RUNNING" and set(house.where(job)) == {"n2"}


def test_without_pald_and_its_database_a_part_whose_nodes_were_cleared_is_given_back_too(house: House) -> None:
    job = waiting(house, "--gpus=1")
    house.user_edits(job, required_nodes="")
    house.kill()
    found = house.slurm.snapshot()
    assert [result.outcome for result in undo(house.slurm, ours(found), found.taken)] == [Outcome.DONE]
    record = house.job(job).record
    assert (record.per_node, record.per_job) == ("", "gres/gpu:1")


@pytest.mark.parametrize("comment", [SHARES, "--comment=app:sweep"], ids=["a part", "a whole GPU"])
def test_what_nobody_knows_of_any_more_counts_as_taken_in_the_cycle_that_gives_it_back(
    house: House, sqlite_template: Path, comment: str
) -> None:
    for gpus in (4, 3):
        house.submit(f"--gres=gpu:{gpus}", "--time=60", runs=3000, user="w")
    house.live(15)
    job = house.submit(*ONE, comment, runs=3000)
    house.pald.cycle()
    assert house.job(job).record.required_nodes
    house.kill()
    shutil.copy(sqlite_template, house.home / "pal.sqlite")
    other = house.submit(*ONE, runs=3000, user="w")
    house.restart()
    house.pald.cycle()
    assert [i.outcome for i in house.intents(job, EditKind.UNPIN)] == [Outcome.DONE]
    assert house.intents(other, EditKind.PIN) == []
    house.live(60)
    assert (house.state(job), house.state(other)) == ("RUNNING", "PENDING")
