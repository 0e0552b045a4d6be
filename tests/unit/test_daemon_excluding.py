"""The actuator `exclude`, with pald's own cycle on SimSlurm: no lua, no lease, only nodes that are excluded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pal_slurm.daemon.undo import ours, undo
from pal_slurm.model import EditKind, Knowledge, Outcome
from pal_slurm.store import DecisionRepo
from tests.builders import scores
from tests.simpald import Crash, House

SLOW = Knowledge(scores(A=[[1.5] * 4] * 2 + [[1.0] * 4] * 4))  # n1 and n2
MakeHouse = Callable[..., House]
EXCLUDED, GIVEN_BACK = EditKind.EXCLUDE, EditKind.INCLUDE


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    return new_house(make_house)


def new_house(make_house: MakeHouse, **keys: object) -> House:
    made = make_house(count=6, knowledge=SLOW, **{"actuator": "exclude", **keys})
    made.lua_alive = False  # there is none
    return made


def fill(house: House, *runs: float, limit: int = 10) -> list[int]:
    """A job on each node, one after the other; limits in minutes."""
    jobs = [house.submit("--gres=gpu:4", f"-t{limit}", "-w", f"n{n}", runs=s) for n, s in enumerate(runs, 1)]
    house.alone(10)
    assert {house.state(job) for job in jobs} == {"RUNNING"}
    return jobs


def shut(house: House, job: int) -> set[str]:
    excluded = house.job(job).job().excluded
    return set(excluded.nodes) if excluded else set()


def kinds(house: House, job: int) -> list[EditKind]:
    return [intent.edit.kind for intent in house.intents(job)]


def test_a_waiting_job_is_kept_off_slow_nodes_and_starts_on_another_one(house: House) -> None:
    fill(house, *(300.0,) * 6)
    job = house.submit("--gres=gpu:2", "-t60")
    house.live(20)
    assert shut(house, job) == {"n1", "n2"} and not house.job(job).record.required_nodes
    house.live(400)
    assert set(house.where(job)) <= {"n3", "n4", "n5", "n6"}
    assert kinds(house, job) == [EXCLUDED] and house.intents(job)[0].closed
    assert all(not update.pins for update in house.journal) and len(house.journal) == 1
    story = DecisionRepo(house.pald.pald.store, house.pald.pald.setup.cluster_name).of_job(job)
    assert story[-1].decision.action == "exclude"


def test_what_its_user_excluded_is_kept_and_comes_back(house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60", "-x", "n6")
    house.live(20)
    assert shut(house, job) == {"n1", "n2"} and house.job(job).record.excluded_nodes == "n1,n[1-2],n1,n6"
    undo(house.slurm, ours(house.slurm.snapshot()), house.now)
    assert house.job(job).record.excluded_nodes == "n6"


def test_where_all_is_free_nobody_waits_for_us(house: House) -> None:
    """Slurm's own next pass starts them all, on nodes that are not slow where pald was there before it."""
    jobs = [house.submit("--gres=gpu:1", "-t60") for _ in range(4)]
    house.live(60)
    assert {house.state(job) for job in jobs} == {"RUNNING"} and max(map(house.waited, jobs)) <= 5.5
    assert not {name for job in jobs for name in house.where(job)} & {"n1", "n2"}


@pytest.mark.parametrize(
    "options",
    [
        ("--array=1-3", "--gres=gpu:2"), ("-w", "n1", "--gres=gpu:2"), ("--comment=pal:off", "--gres=gpu:2"),
        ("--exclusive", "--gres=gpu:2"), ("--hold", "--gres=gpu:2"), ("--begin=now+1hour", "--gres=gpu:2"),
        ("-x", "n[3-6]", "--gres=gpu:2"), ("-N5", "--gres=gpu:2"), ("-N3", "--gres=gpu:2"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_who_could_be_hurt_is_left_alone(house: House, options: tuple[str, ...]) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    before = house.job(house.submit("-t60", *options)).record.excluded_nodes
    job = max(house.controller.pending)
    house.live(60)
    assert house.journal == [] and house.job(job).record.excluded_nodes == before


def test_a_slow_node_that_is_free_is_taken_when_declining_it_has_cost_as_much_as_it_would(
    make_house: MakeHouse,
) -> None:
    """By their limits the others end in time; they are late. Without us it would have started after 100 s."""
    house = new_house(make_house, exclude={"most_wait_s": 120})
    house.have_run(3600.0)
    fill(house, 100.0, *(10_000.0,) * 5, limit=3)
    job = house.submit("--gres=gpu:2", "-t60")
    house.live(95)
    assert shut(house, job) == {"n1", "n2"}
    house.live(60)
    assert house.state(job) == "PENDING"
    house.live(120)
    assert house.where(job).keys() == {"n1"} and house.waited(job) < 100 + 120 + 30
    assert kinds(house, job) == [EXCLUDED, GIVEN_BACK]


def test_fast_nodes_that_slurm_keeps_for_another_are_not_waited_for_beside_a_slow_one(house: House) -> None:
    """They look free for hours: the one ahead needs n2 too. Without us it would have started on n1 after 100 s."""
    fill(house, 100.0, 10_000.0, *(100.0,) * 4, limit=180)
    large = house.submit("--gres=gpu:4", "-N5", "-t60", "-x", "n1")
    job = house.submit("--gres=gpu:2", "-t600")
    house.live(90)
    for _ in range(30):
        house.live(20)
    assert house.state(large) == "PENDING"
    assert house.where(job).keys() == {"n1"} and house.waited(job) < 100 + 300 + 30


def test_where_no_other_node_is_due_in_time_a_slow_one_is_not_declined(house: House) -> None:
    fill(house, 100.0, *(10_000.0,) * 5, limit=300)
    job = house.submit("--gres=gpu:2", "-t600")
    house.live(130)
    assert house.where(job).keys() == {"n1"} and house.waited(job) < 125


def test_it_is_taken_back_when_the_nodes_that_are_left_go_away(house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60")
    house.live(20)
    assert shut(house, job) == {"n1", "n2"}
    for name in ("n4", "n5", "n6"):
        house.controller.set_node(name, "DRAIN")
    house.live(20)
    assert shut(house, job) == set() and kinds(house, job) == [EXCLUDED, GIVEN_BACK]


def test_its_user_s_later_word_wins(house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60")
    house.live(20)
    house.user_edits(job, required_nodes="n1")
    house.live(30)
    assert shut(house, job) == set() and house.job(job).record.required_nodes == "n1"
    other = house.submit("--gres=gpu:2", "-t60")
    house.live(20)
    house.user_edits(other, excluded_nodes="n[1-5]")
    house.live(30)
    assert house.job(other).record.excluded_nodes == "n[1-5]"


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_pald_that_is_killed_at_the_edit_leaves_what_the_next_one_understands(house: House, where: str) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60")

    def die() -> None:
        raise Crash

    (house.watch.before if where == "before" else house.watch.after)["apply"] = die
    with pytest.raises(Crash):
        house.live(20)
    house.watch.before.clear()
    house.watch.after.clear()
    house.restart()
    house.live(60)
    assert shut(house, job) == {"n1", "n2"}
    assert [i.outcome for i in house.intents(job)][-1] is Outcome.DONE
    assert sum(not i.closed for i in house.intents(job)) == 1


def test_with_pald_and_its_database_gone_the_list_tells_what_to_give_back(house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    jobs = [house.submit("--gres=gpu:2", "-t60", "-x", "n6"), house.submit("--gres=gpu:2", "-t60")]
    house.live(20)
    house.kill()
    results = undo(house.slurm, ours(house.slurm.snapshot()), house.now)
    assert [result.outcome for result in results] == [Outcome.DONE] * 2
    assert [house.job(job).record.excluded_nodes for job in jobs] == ["n6", ""]


@pytest.mark.parametrize("keys", [{"actuator": "pin"}, {"canary": {"percent": 0}}], ids=str)
def test_another_actuator_or_a_narrower_rollout_gives_all_lists_back(house: House, keys: dict[str, object]) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60", "-x", "n6")
    house.live(20)
    assert shut(house, job)
    house.keys.update(keys)
    house.restart()
    house.live(20)
    assert house.job(job).record.excluded_nodes == "n6" and kinds(house, job) == [EXCLUDED, GIVEN_BACK]


def test_a_paused_pald_gives_all_lists_back(house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60")
    house.live(20)
    (house.home / "paused").write_text("0 lunch\n")
    house.live(20)
    assert shut(house, job) == set()
    house.live(60)
    assert kinds(house, job) == [EXCLUDED, GIVEN_BACK]


def test_a_fault_of_ours_gives_all_lists_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60", "-x", "n6")
    house.live(20)
    assert shut(house, job) == {"n1", "n2"}

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pal_slurm.daemon.excluding.exclusions", fails)
    house.live(20)
    assert house.job(job).record.excluded_nodes == "n6"


def test_a_pald_without_its_ledger_writes_down_what_it_finds(make_house: MakeHouse, house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    job = house.submit("--gres=gpu:2", "-t60")
    house.live(20)
    house.kill()
    (house.home / "pal.sqlite").unlink()
    house.restart()
    house.live(20)
    assert shut(house, job) == {"n1", "n2"} and kinds(house, job) == [EXCLUDED]


def test_nothing_is_said_twice(house: House) -> None:
    fill(house, *(900.0,) * 6, limit=20)
    for _ in range(20):
        house.submit("--gres=gpu:2", "-t60")
    house.live(600)
    assert len(house.journal) == 20
