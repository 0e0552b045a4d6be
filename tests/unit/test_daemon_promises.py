"""The promises P1 to P8, each tried on pald's own cycle beside SimSlurm; tests/slurm tries them on real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import mean

import pytest

from pal_slurm.daemon.undo import ours, undo
from pal_slurm.errors import NotLeader, SlurmUnavailable
from pal_slurm.model import App, Apps, EditKind, Intent, Knowledge, Outcome
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.slurm.edits.rewrite import NOW
from tests.builders import scores
from tests.simpald import SETUP, House

Make = Callable[..., House]
LEASE_S = 20
TICK_S = 5  # of the scheduler, in these tests
WAITS = "--gres=gpu:4"


def fill(house: House, runs: float = 300.0) -> list[int]:
    """Jobs of others on every GPU."""
    house.lua_alive = False
    found = [house.submit(WAITS, "--exclusive", runs=runs) for _ in house.controller.nodes]
    house.alone(2)
    house.lua_alive = True
    return found


class TestP1WithoutPaldEveryJobStarts:
    def test_a_leased_job_starts_when_its_lease_ends(self, house: House) -> None:
        house.kill()
        job = house.submit("--gres=gpu:1")
        house.alone(LEASE_S - 1)
        assert house.state(job) == "PENDING"
        house.alone(1 + TICK_S)
        assert house.state(job) == "RUNNING"

    def test_no_renewed_lease_is_longer_than_ten_minutes(self, house: House) -> None:
        fill(house, runs=3600)
        jobs = [house.submit(WAITS) for _ in range(8)]
        house.live(700)
        assert all(house.job(job).begin - house.now <= 600 for job in jobs)
        house.kill()
        for node in house.controller.nodes:  # the jobs in the way end
            assert node.busy
        for number in list(house.controller.running):
            house.controller.cancel(number)
        last = max(house.job(job).begin for job in jobs)
        house.alone(last - house.now + TICK_S)
        assert [house.state(job) for job in jobs].count("RUNNING") == 4  # as many as fit

    def test_undo_needs_neither_pald_nor_its_database(self, house: House) -> None:
        house.controller.setup = replace(SETUP, main_s=1e9, backfill_s=1e9)
        blocks = house.submit("--gres=gpu:4")
        pinned, leased = house.submit("--gres=gpu:2"), house.submit("--gres=gpu:1", "-d", f"afterany:{blocks}")
        before = house.job(leased).job().request
        house.pald.cycle()
        assert len(house.pins(pinned)) == 1
        house.kill()
        for file in house.home.iterdir():
            file.unlink()
        snapshot = house.slurm.snapshot()
        results = undo(house.slurm, ours(snapshot), snapshot.taken)
        assert {result.outcome for result in results} == {Outcome.DONE}
        assert house.job(pinned).record.required_nodes == "" and house.job(pinned).record.per_node == "gres/gpu:2"
        assert house.job(leased).job().request == before
        house.controller.cancel(blocks)
        house.alone(2)
        assert house.state(pinned) == house.state(leased) == "RUNNING"

    def test_a_job_that_was_pinned_to_a_node_which_died_starts_elsewhere_after_undo(self, house: House) -> None:
        job = house.submit("--gres=gpu:2")
        house.pald.cycle()
        node = house.pins(job)[0].asked.texts["nodes"]
        house.kill()
        house.controller.set_node(node, "DOWN")
        house.alone(60)
        assert house.state(job) == "PENDING"
        snapshot = house.slurm.snapshot()
        undo(house.slurm, ours(snapshot), snapshot.taken)
        house.alone(TICK_S)
        assert house.state(job) == "RUNNING" and node not in house.where(job)


class TestP2OnlyOursAreEdited:
    def test_jobs_without_a_lease_get_no_update_at_all(self, house: House) -> None:
        house.lua_alive = False
        foreign = [
            house.submit("--gres=gpu:2", *options) for options in ((), ("-w", "n2"), ("--begin=now+60",), ("-H",))
        ]
        house.lua_alive = True
        mine = house.submit("--gres=gpu:1")
        house.live(300)
        assert {update.target for update in house.journal} == {str(mine)}
        assert [house.state(job) for job in foreign] == ["RUNNING"] * 3 + ["PENDING"]

    @pytest.mark.parametrize("options", [("-w", "n3"), ("--comment=pal:off",), ("--exclusive",)], ids=str)
    def test_what_the_user_chose_is_left_as_it_is(self, house: House, options: tuple[str, ...]) -> None:
        job = house.submit("--gres=gpu:1", *options)
        record = house.job(job).record
        asked = (record.required_nodes, record.per_node, record.features, record.excluded_nodes)
        house.live(60)
        assert house.state(job) == "RUNNING" and not house.pins(job)
        assert (record.required_nodes, record.per_node, record.features, record.excluded_nodes) == asked

    @pytest.mark.parametrize("options", [("-x", "n1,n2,n3"), ("-C", "rack9|rack1&a100", "-x", "n[1-3]")], ids=str)
    def test_a_pin_respects_excludes_and_features(self, house: House, options: tuple[str, ...]) -> None:
        job = house.submit("--gres=gpu:1", *options)
        house.live(60)
        assert set(house.where(job)) == {"n4"}

    def test_a_job_that_waits_for_another_is_not_started_before_it(self, house: House) -> None:
        first = house.submit("--gres=gpu:1", runs=900)
        second = house.submit("--gres=gpu:1", "-d", f"afterany:{first}")
        house.live(890)
        assert house.state(second) == "PENDING" and not house.pins(second)
        house.live(120)
        assert house.state(second) == "RUNNING"

    def test_a_users_later_begin_time_is_kept(self, house: House) -> None:
        job = house.submit("--gres=gpu:1", "--begin=now+30minutes")
        house.live(1790)
        assert house.state(job) == "PENDING" and not house.pins(job)
        house.live(60)
        assert house.state(job) == "RUNNING"

    def test_an_edit_of_the_user_between_look_and_pin_wins(self, house: House) -> None:
        job = house.submit("--gres=gpu:1")
        house.watch.before["apply"] = lambda: house.user_edits(job, excluded_nodes="n[1-3]")
        house.pald.cycle()
        assert not house.pins(job)
        house.watch.before.clear()
        house.live(60)
        assert set(house.where(job)) == {"n4"}


def robbed(house: House) -> tuple[int, int]:
    """A job that was pinned to the one free GPU, and a faster one that takes it."""
    fill(house, runs=1e6)
    house.controller.cancel(1)
    job = house.submit(WAITS)
    house.lua_alive = False
    house.pald.cycle()
    thief = house.submit(WAITS, "-w", "n1", runs=1e6)
    house.job(thief).record.priority = 2**32 - 2
    return job, thief


class TestP4WhatTurnsOutBadIsUndone:
    def test_a_pin_to_a_node_that_is_drained_at_once_is_taken_back(self, house: House) -> None:
        job = house.submit("--gres=gpu:2")
        house.pald.cycle()
        node = house.pins(job)[0].asked.texts["nodes"]
        house.controller.set_node(node, "DRAIN")
        house.live(60)
        assert house.state(job) == "RUNNING" and node not in house.where(job)
        kinds = [intent.edit.kind for intent in house.intents(job)]
        assert kinds[:3] == [EditKind.PIN, EditKind.UNPIN, EditKind.PIN]

    def test_a_pin_whose_gpus_a_faster_job_took_is_judged_by_slurms_passes(self, house: House) -> None:
        job, thief = robbed(house)
        assert [update.asked.texts["nodes"] for update in house.pins(job)] == ["n1"]
        main = house.controller.main_passes
        while not house.intents(job, EditKind.UNPIN):
            house.live(1)
            assert house.controller.main_passes <= main + 4
        assert house.controller.main_passes >= main + 2
        assert house.job(job).record.required_nodes == "" and house.state(thief) == "RUNNING"

    def test_whose_pin_is_taken_back_has_what_is_free_before_those_behind_it(self, house: House) -> None:
        job, thief = robbed(house)
        house.pald.cycle()  # looks at it: Slurm's passes count from here
        house.alone(12)
        house.lua_alive = True
        behind = house.submit(WAITS)
        house.controller.cancel(thief)
        house.pald.cycle()
        assert house.intents(job, EditKind.UNPIN) and not house.pins(behind)
        house.live(30)
        assert (house.state(job), house.state(behind)) == ("RUNNING", "PENDING")

    def test_no_pin_is_sent_that_asks_for_what_is_taken(self, house: House) -> None:
        """Every pin, at its moment, names slots that nobody holds."""
        taken: list[str] = []

        def look() -> None:
            nodes = {node.name: node.busy for node in house.controller.nodes}
            update = house.journal[-1] if house.journal else None
            if update is not None and update.pins:
                slots = [int(word.split(":")[1][1:]) for word in update.asked.texts["tres_per_job"].split(",")]
                taken.extend(
                    node for node in update.asked.texts["nodes"].split(",") for s in slots if nodes[node] >> s & 1
                )

        house.watch.after["apply"] = look
        for wave in range(8):
            for gpus in (1, 2, 3, 4, 2):
                house.submit(f"--gpus={gpus}", runs=40.0 + 13 * wave)
            house.live(30)
        house.live(900)
        assert not taken
        assert len(house.controller.ended) == 40


class TestP5NobodyStarves:
    def test_a_large_job_behind_a_stream_of_small_ones_starts_as_with_slurm_alone(self, make_house: Make) -> None:
        starts = []
        for with_pald in (False, True):
            house = make_house()
            house.lua_alive = with_pald
            small = [house.submit("--gres=gpu:1", "-t", "10", runs=500) for _ in range(16)]
            step = house.live if with_pald else house.alone
            step(5)
            large = house.submit("-N4", "--gres=gpu:4", "-t", "10", runs=60)
            for _ in range(22):
                small.append(house.submit("--gres=gpu:1", "-t", "10", runs=500))
                step(50)
            assert house.job(large).started, "it never started"
            starts.append(house.waited(large))
        assert starts[1] <= starts[0] + 10

    def test_jobs_that_ask_alike_start_in_their_order(self, house: House) -> None:
        jobs = [house.submit("--gres=gpu:4", runs=100 + i) for i in range(20)]
        house.live(1200)
        starts = [house.job(job).started for job in jobs]
        assert starts == sorted(starts)

    def test_ours_wait_no_longer_than_slurms_own_would(self, make_house: Make) -> None:
        waits = []
        for with_pald in (False, True):
            house = make_house()
            house.lua_alive = with_pald
            jobs = [house.submit(f"--gpus={n}", "-t", "20", runs=150.0 * n) for n in (4, 1, 2, 3, 1, 4, 2, 2) * 3]
            (house.live if with_pald else house.alone)(3000)
            waits.append(mean(house.waited(job) for job in jobs))
        assert waits[1] <= waits[0] * 1.02 + 3


class TestP6OneWriterOnAFreshLook:
    def test_nothing_is_written_on_the_strength_of_an_old_snapshot(self, house: House) -> None:
        job = house.submit("--gres=gpu:1", "--begin=now+1hour")
        other = house.submit("--gres=gpu:1")
        house.watch.after["snapshot"] = lambda: house.alone(16)
        report = house.pald.cycle()
        assert report.end == "stale" and "old" in report.note
        assert house.journal == [] and not house.intents()
        assert {house.state(job), house.state(other)} == {"PENDING"}

    def test_leases_for_which_the_snapshot_grew_too_old_are_due_again_and_pald_lives_on(self, make_house: Make) -> None:
        house = make_house(budget={"edits_per_s": 1000})
        fill(house, runs=1e6)
        jobs = [house.submit(WAITS) for _ in range(150)]
        house.alone(LEASE_S - 14)  # they are due
        house.watch.each = lambda: house.alone(0.12)  # slurmctld is slow
        report = house.pald.cycle()
        renewed = {intent.edit.job for intent in house.intents() if intent.outcome is Outcome.DONE}
        assert report.end == "ok"
        assert 64 < len(renewed) < len(jobs) == len(renewed) + report.put_off

    def test_a_second_pald_stands_by_and_takes_over_when_the_first_is_silent(self, house: House) -> None:
        second = house.another("second")
        house.pald.cycle()
        job = house.submit("--gres=gpu:1")
        assert second.cycle().end == "standby"
        assert house.journal == []
        house.alone(31)  # leader.ttl_s
        assert second.cycle().leader
        assert house.pald.cycle().end == "standby"
        house.kill(second)
        assert house.state(job) in ("PENDING", "RUNNING")

    def test_a_leader_that_wakes_up_between_intent_and_edit_writes_nothing(self, make_house: Make) -> None:
        house = make_house(cycle={"max_age_s": 60})
        house.controller.plugin = Leasing(lambda now: True, length_s=600)  # no ending lease stops it
        second = house.another("second")
        job = house.submit("--gres=gpu:1")
        ledger = house.pald.pald.cycle.books.ledger
        write = ledger.write

        def then_sleeps(planned: Sequence[Intent]) -> list[Intent]:
            written = write(planned)
            with pytest.raises(NotLeader):
                second.pald.leader.hold()  # it sees who leads; from then on it counts
            house.alone(32)  # leader.ttl_s
            second.pald.leader.hold()
            return written

        ledger.write = then_sleeps  # type: ignore[method-assign]
        house.pald.cycle()
        assert house.journal == []
        assert [intent.outcome for intent in house.intents(job)] == [Outcome.REFUSED]
        assert house.pald.cycle().end == "standby"
        second.run_until(house.now + 10)
        assert house.state(job) == "RUNNING" and len(house.pins(job)) == 1
        house.kill(second)


class TestP7BadScoresPlaceNeutrally:
    def places(self, make_house: Make, knowledge: Knowledge | None) -> list[dict[str, tuple[int, ...]]]:
        house = make_house(knowledge=knowledge)
        jobs = []
        for gpus in (1, 2, 4, 1, 3, 2):
            jobs.append(house.submit(f"--gpus={gpus}", "--comment=app:resnet", runs=1e5))
            house.live(10)
        return [house.where(job) for job in jobs]

    def test_scores_that_nobody_vouches_for_place_as_none_at_all(self, make_house: Make) -> None:
        rows = [[5.0, 0.2, 1.0, 3.0], [1.0] * 4, [0.1, 9.0, 1.0, 1.0], [2.0, 1.0, 1.0, 7.0]]
        absurd = scores(A=rows)
        told = Apps({"resnet": App("resnet", "A")})
        assert self.places(make_house, Knowledge(absurd, told)) != self.places(make_house, None)  # it could tell

    def test_good_scores_are_used(self, make_house: Make) -> None:
        slow = [[1.5] * 4, [1.5] * 4, [1.5] * 4, [1.0, 1.5, 1.0, 1.5]]
        told = Knowledge(scores(A=slow), Apps({"resnet": App("resnet", "A")}))
        first, *_ = self.places(make_house, told)
        assert set(first) == {"n4"} and first["n4"][0] in (0, 2)


class TestP8SlurmctldIsNotFlooded:
    def test_writes_keep_to_their_budget(self, make_house: Make) -> None:
        house = make_house(budget={"edits_per_s": 2.0, "start_share": 0.0, "keep_share": 0.0})
        fill(house, runs=1e6)
        for _ in range(150):
            house.submit(WAITS)
        begun = house.now
        house.live(60)
        times = [update.at for update in house.journal]
        assert 120 < len(times) <= 64 + 2 * (house.now - begun)
        assert house.pald.effort.put_off > 0

    def test_reading_takes_its_share_of_slurmctlds_time_and_no_more(self, make_house: Make) -> None:
        house = make_house(setup=replace(SETUP, read_s=0.5))
        fill(house, runs=1e6)
        house.submit(WAITS)
        house.live(60)
        before, begun = house.slurm.passes().rpc_time_us, house.now
        house.live(600)
        spent = (house.slurm.passes().rpc_time_us - before) / 1e6
        assert spent <= 0.05 * (house.now - begun)

    def test_a_slurmctld_that_is_away_is_asked_less_and_less(self, house: House) -> None:
        def away() -> None:
            raise SlurmUnavailable("no answer")

        house.watch.before["snapshot"] = away
        job = house.submit("--gres=gpu:1", runs=1e4)
        house.live(600)
        assert house.pald.effort.ends["unavailable"] < 30
        house.watch.before.clear()
        house.live(90)
        assert house.pald.effort.ends["ok"] > 0
        assert house.waited(job) <= LEASE_S + TICK_S

    def test_a_pin_starts_now(self, house: House) -> None:
        job = house.submit("--gres=gpu:1")
        house.live(3)
        assert house.pins(job)[0].asked.begin == NOW and house.waited(job) <= 2
