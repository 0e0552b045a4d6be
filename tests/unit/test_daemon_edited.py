"""What somebody edits in a job that waits under a lease: it is what the job asks for, and keeps nobody waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pal_slurm.daemon.undo import ours, undo
from pal_slurm.slurm.nodes import PartitionRecord, ReservationRecord
from tests.simpald import SETUP, House

Make = Callable[..., House]
STANDS_STILL = replace(SETUP, main_s=1e9, backfill_s=1e9)


def crowded(house: House, nodes: int = 2) -> None:
    """Others hold so many nodes for ten hours; whoever comes now waits under a lease, where he needs one of these."""
    for _ in range(nodes):
        house.submit("--gres=gpu:4", "--exclusive", "--time=600", runs=36_000)
    house.live(10)


@pytest.mark.parametrize("asked", ["", "gres/gpu:tesla/v100:1", "gres/tpu:1"])
def test_who_asks_for_no_gpu_that_we_know_of_does_not_wait_for_one(make_house: Make, asked: str) -> None:
    house = make_house(count=2)
    crowded(house)
    job = house.submit("--gres=gpu:1")
    house.user_edits(job, per_node=asked)
    house.live(15)
    assert house.job(job).begin <= house.now
    tasks = house.submit("--gres=gpu:1", "--array=0-3")
    house.user_edits(tasks, per_node=asked)
    house.live(15)
    assert all(task.begin <= house.now for task in house.controller.family(tasks))


def test_who_is_put_into_a_reservation_starts_there_at_once(make_house: Make) -> None:
    house = make_house(count=3)
    house.controller.reserve(ReservationRecord("class", "n3", int(house.now), int(house.now + 86_400), []))
    crowded(house)
    job, other = house.submit("--gres=gpu:1"), house.submit("--gres=gpu:1")
    house.user_edits(job, reservation="class")
    house.live(30)
    assert house.where(job) == {"n3": (0,)} and house.state(other) == "PENDING"


class TestAnEditBeforeThePinOutlivesIt:
    """The mark keeps the request of the submission; its user changed it before it was pinned (P2)."""

    def back_in_the_queue(self, house: House, job: int) -> None:
        """It runs as it was pinned, a node is lost, and pald's pin is taken back."""
        house.live(20)
        assert house.pins(job)
        house.controller.setup = STANDS_STILL
        house.controller.requeue(job)
        for _ in range(200):
            house.live(0.5)
            if not house.job(job).record.required_nodes:
                return
        raise AssertionError("its pin stands still")

    @pytest.mark.parametrize("release", ["24.11", "26.05"])
    @pytest.mark.parametrize(("option", "field"), [("--gres=gpu:1", "per_node"), ("--gpus=1", "per_job")])
    def test_more_gpus_stay_more(self, make_house: Make, release: str, option: str, field: str) -> None:
        house = make_house(release=release)
        job = house.submit(option, runs=36_000)
        house.user_edits(job, **{field: "gres/gpu:3"})
        self.back_in_the_queue(house, job)
        assert getattr(house.job(job).record, field) == "gres/gpu:3"

    def test_more_nodes_stay_more(self, house: House) -> None:
        job = house.submit("--gres=gpu:2", "-N1", runs=36_000)
        house.user_edits(job, num_nodes=2, max_nodes=2, ntasks=2)
        self.back_in_the_queue(house, job)
        assert house.job(job).record.num_nodes == 2

    def test_another_partition_stays(self, house: House) -> None:
        house.controller.partitions.append(PartitionRecord("other", house.controller.partitions[0].nodes))
        job = house.submit("--gres=gpu:1", "-p", "gpu", runs=36_000)
        house.user_edits(job, partition="other")
        self.back_in_the_queue(house, job)
        assert house.job(job).record.partition == "other"

    def test_one_of_several_partitions_is_all_of_them_again(self, house: House) -> None:
        house.controller.partitions.append(PartitionRecord("other", house.controller.partitions[0].nodes))
        job = house.submit("--gres=gpu:1", "-p", "other,gpu", runs=36_000)
        self.back_in_the_queue(house, job)
        assert house.job(job).record.partition == "other,gpu"

    @pytest.mark.parametrize("option", ["--gres=gpu:1", "--gpus=1", "-n1 --gpus-per-task=1"])
    def test_one_after_the_pin_does_too_and_takes_the_pin_along(self, make_house: Make, option: str) -> None:
        house = make_house(count=2, setup=STANDS_STILL)
        job = house.submit(*option.split())
        house.pald.cycle()
        assert house.job(job).record.required_nodes == "n1"
        house.user_edits(job, per_node="gres/gpu:3", per_job="", per_task="")
        house.controller.set_node("n1", "DRAIN")
        house.controller.setup = SETUP
        house.live(60)
        assert house.where(job) == {"n2": (0, 1, 2)}

    def test_undo_without_pald_and_its_database_keeps_it_too(self, house: House) -> None:
        house.controller.setup = STANDS_STILL
        job = house.submit("--gres=gpu:1")
        house.user_edits(job, per_node="gres/gpu:2")
        house.pald.cycle()
        assert house.state(job) == "PENDING" and house.job(job).record.required_nodes
        house.kill()
        undo(house.slurm, ours(house.slurm.snapshot()), house.now)
        assert (house.job(job).record.required_nodes, house.job(job).record.per_node) == ("", "gres/gpu:2")


def test_who_lost_his_mark_while_he_ran_does_not_wait_for_the_node_that_he_was_pinned_to(make_house: Make) -> None:
    """AdminComment is the site's too: some write there when a job starts."""
    house = make_house(count=2)
    job = house.submit("--gres=gpu:2", runs=36_000)
    house.live(20)
    assert house.where(job) == {"n1": (0, 1)}
    house.controller.set_node("n1", "DOWN")
    while house.state(job) != "PENDING":
        house.alone(1)
    house.user_edits(job, admin_comment="energy=17")
    house.live(120)
    assert set(house.where(job)) == {"n2"} and house.job(job).record.per_node == "gres/gpu:2"


def test_who_names_a_node_himself_waits_for_it(make_house: Make) -> None:
    house = make_house(count=2)
    house.lua_alive = False
    job = house.submit("--gres=gpu:2", "-w", "n1", runs=36_000)
    house.live(20)
    house.controller.set_node("n1", "DOWN")
    house.live(300)
    assert house.state(job) == "PENDING" and house.job(job).record.required_nodes == "n1"
