"""Two jobs on one GPU, by pald's own cycle beside SimSlurm: who is put beside whom, and that nobody pays for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import pytest

from pal_slurm.daemon.undo import ours, undo
from pal_slurm.learning.pairs import PairsSeen
from pal_slurm.model import (
    NOBODY_SHARES,
    App,
    Apps,
    EditKind,
    JobKind,
    Knowledge,
    Outcome,
    Reason,
    Sharers,
    Sharing,
)
from pal_slurm.report.jobs import job_rows
from pal_slurm.report.why import sentences
from pal_slurm.sim.daemon import settings
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.store import OutcomeRepo
from tests.builders import scores
from tests.simpald import SETUP, Crash, House
from tests.unit.test_daemon_crashes import Fuse, armed

SWEEP, LONER = JobKind("sweep", 1), JobKind("loner", 1)
PAIRS = Sharing(
    {
        Sharers(SWEEP, SWEEP, "gpu"): 1.25,  # two do 1.6 of a job's work
        Sharers(LONER, LONER, "gpu"): 2.0,  # two do no more than one
    }
)
KNOWN = Knowledge(
    scores(A=[[1.0] * 4]), Apps({name: App(name, "A", {"gpu": 1.0}) for name in ("sweep", "loner")}), pairs=PAIRS
)
SHARES = "--comment=app:sweep pal:share"
ONE = ("--gres=gpu:1", "--mem=1000", "--time=60")


@pytest.fixture
def sharing(tmp_path: Path, sqlite_template: Path) -> Iterator[Callable[..., House]]:
    """A node of four GPUs, each of two shards, with pald."""
    made: list[House] = []

    def make(**keys: Any) -> House:
        keys = {"count": 1, "shards": 2, "knowledge": KNOWN, "sharing": {"enabled": True}, **keys}
        found = House(tmp_path / f"h{len(made)}", sqlite_template, **keys)
        made.append(found)
        return found

    yield make
    for house in made:
        house.kill()


def full(house: House, shares: int = 4, runs: float = 3000.0, user: str = "u") -> list[int]:
    """Jobs on all four GPUs, the first of which may share."""
    jobs = [house.submit(*ONE, SHARES, runs=runs, user=user) for _ in range(shares)]
    jobs += [house.submit(*ONE, runs=runs, user="w") for _ in range(4 - shares)]
    house.live(15)
    assert [house.state(job) for job in jobs] == ["RUNNING"] * 4
    return jobs


def asked(house: House, job: int) -> str:
    return house.job(job).record.per_node


def test_a_job_for_which_no_gpu_is_free_goes_beside_one_of_its_owner(sharing: Callable[..., House]) -> None:
    house = sharing()
    first = full(house)
    second = house.submit(*ONE, SHARES)
    house.live(15)
    assert house.state(second) == "RUNNING"
    assert house.where(second) in [house.where(job) for job in first]
    assert {asked(house, job).split(":")[0] for job in (*first, second)} == {"gres/shard"}
    (why,) = house.pald.pald.cycle.books.decisions.of_job(second)
    assert why.decision.reason is Reason.SHARES and why.decision.together is not None
    assert (why.decision.together.factor, why.decision.together.others) == (1.25, 1.25)
    assert why.decision.step_time == pytest.approx(1.25)
    told = " ".join(sentences(why))
    assert f"is put on the GPU of job {why.decision.together.job}, of the same owner" in told
    assert "A step takes it 1.25 times as long there as alone" in told and "0.60 of a job more" in told
    books = OutcomeRepo(house.pald.pald.store, house.pald.pald.setup.cluster_name)
    assert [o.step_time for o in books.of_job(second)] == [pytest.approx(1.25)]
    house.live(3000)
    rows = {row["job"]: row for row in job_rows([why], books.newest(10), 10)}
    assert rows[second]["beside"] == why.decision.together.job
    assert rows[second]["beside_cost"] == pytest.approx(0.25)
    assert rows[second]["beside_gpu_s"] == pytest.approx(0.6 * 600, rel=0.02)  # as long as it ran beside the other
    assert rows[first[0]]["beside"] is None


def test_there_are_never_more_than_two_on_a_gpu(sharing: Callable[..., House]) -> None:
    house = sharing(shards=3)
    jobs = [house.submit(*ONE, SHARES, runs=3000) for _ in range(10)]
    house.live(60)
    placed = [tuple(house.where(job).items()) for job in jobs if house.state(job) == "RUNNING"]
    assert len(placed) == 8 and {placed.count(where) for where in placed} == {2}


@pytest.mark.parametrize(("of_host", "beside"), [(2.0, True), (2.1, False)])
def test_who_runs_keeps_half_of_its_speed_whatever_the_other_gains(
    sharing: Callable[..., House], of_host: float, beside: bool
) -> None:
    table = {Sharers(SWEEP, LONER, "gpu"): of_host, Sharers(LONER, SWEEP, "gpu"): 1.0}
    house = sharing(knowledge=replace(KNOWN, pairs=Sharing(table)))
    full(house)
    guest = house.submit(*ONE, "--comment=app:loner pal:share")
    house.live(30)
    assert (house.state(guest) == "RUNNING") == beside


def test_who_says_nothing_and_whose_pair_gains_nothing_has_a_whole_gpu(sharing: Callable[..., House]) -> None:
    house = sharing()
    options = {"plain": "app:sweep", "loner": "app:loner pal:share", "nobody knows it": "app:new pal:share"}
    jobs = [house.submit(*ONE, f"--comment={comment}", runs=3000) for comment in options.values()]
    house.live(15)
    assert all(asked(house, job).startswith("gres/gpu:g") for job in jobs)


@pytest.mark.parametrize(
    "form", [("--gres=gpu:1",), ("--gpus=1",), ("--gpus-per-task=1",), ("-N1", "--gpus-per-node=1")]
)
def test_each_way_to_ask_for_one_gpu_is_shared_and_given_back_as_it_was(
    sharing: Callable[..., House], form: tuple[str, ...]
) -> None:
    house = sharing()
    first = full(house)
    second = house.submit(*form, "--mem=1000", "--time=60", SHARES)
    made = house.job(second).job().request
    house.live(15)
    assert house.state(second) == "RUNNING" and house.where(second) in [house.where(job) for job in first]
    assert house.job(second).record.per_job == ""
    house.controller.requeue(second)
    house.alone(5)
    assert asked(house, second).startswith("gres/shard:g")  # Slurm keeps the pin
    house.pald.cycle()
    (unpin,) = house.intents(second, EditKind.UNPIN)
    assert unpin.outcome is Outcome.DONE
    stands = house.job(second).job().request
    assert (stands.per_node, stands.per_job, stands.per_task) == (made.per_node, made.per_job, made.per_task)


NOT_SHARED = {
    "two GPUs": ("--gres=gpu:2",),
    "the node to itself": ("--gres=gpu:1", "--exclusive"),
    "an array with a limit": ("--gres=gpu:1", "-a", "0-3%2"),
    "memory by GPU": ("--gpus=1", "--mem-per-gpu=1000"),
    "CPUs by GPU": ("--gpus=1", "--cpus-per-gpu=2"),
    "a model by name": ("--gres=gpu:a100:1",),
    "its own node": ("--gres=gpu:1", "-w", "n1"),
    "more memory than there is": ("--gres=gpu:1", "--mem=200000"),
    "two tasks with one each": ("-n2", "--gpus-per-task=1"),
    "one or two nodes": ("-N1-2", "--gres=gpu:1"),
    "an account of others": ("--gres=gpu:1", "account"),
    "hands off": ("--gres=gpu:1", "--comment=app:sweep pal:share pal:off"),
}


@pytest.mark.parametrize("options", NOT_SHARED.values(), ids=NOT_SHARED)
def test_what_can_not_share_waits_for_a_gpu_of_its_own(sharing: Callable[..., House], options: tuple[str, ...]) -> None:
    house = sharing()
    full(house)
    job = house.submit("--mem=1000", "--time=60", SHARES, *(o for o in options if o != "account"))
    if "account" in options:
        house.user_edits(job, account="others")
    house.live(60)
    assert house.state(job) == "PENDING"
    assert not [update for update in house.pins(job) if "shard" in str(update.asked.texts)]


def test_jobs_of_two_owners_are_never_on_one_gpu(sharing: Callable[..., House]) -> None:
    house = sharing()
    full(house, user="ann")
    job = house.submit(*ONE, SHARES, user="bob")
    house.live(60)
    assert house.state(job) == "PENDING"


def test_nobody_is_put_beside_another_while_a_job_of_another_owner_is_ahead(sharing: Callable[..., House]) -> None:
    house = sharing()
    first = full(house, user="ann")
    ahead = house.submit("--gres=gpu:4", "--time=60", user="bob")
    behind = house.submit("--gres=gpu:1", "--mem=1000", "--time=5", SHARES, user="ann")  # no reservation is in its way
    house.live(30)
    assert house.state(ahead) == house.state(behind) == "PENDING"
    house.controller.cancel(ahead)
    house.live(15)
    assert house.state(behind) == "RUNNING" and house.where(behind) in [house.where(job) for job in first]


def test_a_job_of_the_same_account_and_another_user_that_is_ahead_waits_no_longer(
    sharing: Callable[..., House],
) -> None:
    """The first of those ahead has a reservation on one node only; on the other the GPUs would be kept for hours."""
    house = sharing(count=2, knowledge=replace(KNOWN, scores=scores(A=[[1.0] * 4] * 2)))
    plain = ("--gres=gpu:1", "--mem=1000")
    first = [house.submit(*ONE, SHARES, runs=3000, user="ann") for _ in range(8)]
    ahead = [house.submit(*plain, "--time=60", runs=3000, user="bob") for _ in range(8)]
    behind = [house.submit(*plain, "--time=600", SHARES, runs=30_000, user="ann") for _ in range(8)]
    for job in (*first, *ahead, *behind):
        house.user_edits(job, account="lab")
    house.live(60)
    assert {house.state(job) for job in first} == {"RUNNING"} and {house.state(job) for job in behind} == {"PENDING"}
    house.live(3000)
    assert {house.state(job) for job in ahead} == {"RUNNING"}


@pytest.mark.parametrize("hold", [True, False])
def test_one_account_makes_two_users_fellows_only_where_slurm_holds_users_to_theirs(
    sharing: Callable[..., House], hold: bool
) -> None:
    """Without AccountingStorageEnforce an account is what its user typed."""
    house = sharing(setup=replace(SETUP, accounts_hold=hold))
    first = [house.submit(*ONE, SHARES, runs=3000, user="ann") for _ in range(4)]
    second = house.submit(*ONE, SHARES, user="eve")
    for job in (*first, second):
        house.user_edits(job, account="lab")
    house.live(30)
    assert house.state(second) == ("RUNNING" if hold else "PENDING")


def test_a_gpu_is_not_given_back_later_than_a_job_of_its_owner_counts_on_that_is_ahead(
    sharing: Callable[..., House],
) -> None:
    house = sharing()
    full(house, user="ann")
    house.submit("--gres=gpu:4", "--time=60", user="ann")
    long, short = (house.submit("--gres=gpu:1", "--mem=1000", f"--time={t}", SHARES, user="ann") for t in (90, 10))
    house.live(30)
    assert (house.state(long), house.state(short)) == ("PENDING", "RUNNING")


def test_a_whole_gpu_waits_for_both_who_share_it_and_starts_then(sharing: Callable[..., House]) -> None:
    house = sharing()
    full(house, shares=1, runs=1000)
    beside = house.submit(*ONE, SHARES, runs=100)
    house.live(15)
    assert house.state(beside) == "RUNNING"
    whole = house.submit("--gres=gpu:4", "--time=60", user="w")
    house.live(700)
    assert house.state(beside) == "COMPLETED" and house.state(whole) == "PENDING"
    house.live(400)
    assert house.state(whole) == "RUNNING"


def test_tasks_of_an_array_go_beside_each_other(sharing: Callable[..., House]) -> None:
    house = sharing()
    array = house.submit(*ONE, SHARES, "-a", "1-8", runs=3000)
    house.live(60)
    running = [job for job in house.controller.running.values() if job.record.array_id == array]
    where = [tuple(house.where(job.record.id).items()) for job in running]
    assert len(where) == 8 and {where.count(each) for each in where} == {2}


def test_of_a_pair_that_is_to_be_measured_an_owner_has_one_couple_at_a_time_until_it_is_known(
    sharing: Callable[..., House],
) -> None:
    ask: dict[Sharers, float | None] = {Sharers(SWEEP, SWEEP, "gpu"): None}
    house = sharing(knowledge=replace(KNOWN, pairs=PairsSeen(ask)))
    first = full(house, shares=2, user="ann")
    more = [house.submit(*ONE, SHARES, runs=2500, user="ann") for _ in range(2)]
    house.live(60)
    assert sorted(house.state(job) for job in more) == ["PENDING", "RUNNING"]
    (guest,) = (job for job in more if house.state(job) == "RUNNING")
    (why,) = house.pald.pald.cycle.books.decisions.of_job(guest)
    assert why.decision.together is not None and not why.decision.together.measured
    assert why.decision.together.job in first[:2]
    assert "nobody knows yet what the two cost each other" in " ".join(sentences(why))
    own = {pair: {"ann": (log(1.2), 0.02**2)} for pair in ask}
    house.knowledge = replace(KNOWN, pairs=PairsSeen(ask, own))
    house.restart()
    house.live(15)
    assert [house.state(job) for job in more] == ["RUNNING"] * 2


@pytest.mark.parametrize(("shown", "again"), [(1.2, True), (1.95, False)])
def test_what_the_first_couple_has_shown_decides_whether_there_is_a_second(
    sharing: Callable[..., House], shown: float, again: bool
) -> None:
    ask: dict[Sharers, float | None] = {Sharers(SWEEP, SWEEP, "gpu"): None}
    own = {pair: {"ann": (log(shown), 0.02**2)} for pair in ask}
    house = sharing(knowledge=replace(KNOWN, pairs=PairsSeen(ask, own)))
    full(house, shares=2, user="ann")
    more = [house.submit(*ONE, SHARES, runs=2500, user="ann") for _ in range(2)]
    house.live(60)
    assert [house.state(job) for job in more] == ["RUNNING" if again else "PENDING"] * 2


def test_who_takes_pal_share_back_before_the_start_gets_a_whole_gpu(sharing: Callable[..., House]) -> None:
    house = sharing()
    job = house.submit(*ONE, SHARES)
    house.pald.cycle()
    assert asked(house, job).startswith("gres/shard:g")
    house.user_edits(job, comment="app:sweep")
    house.pald.cycle()
    assert asked(house, job) == "gres/gpu:1"
    house.live(60)
    assert house.state(job) == "RUNNING" and asked(house, job).startswith("gres/gpu")


def test_nobody_comes_any_more_to_one_who_takes_pal_share_back(sharing: Callable[..., House]) -> None:
    house = sharing()
    first = full(house)
    second = house.submit(*ONE, SHARES)
    house.pald.cycle()
    (why,) = house.pald.pald.cycle.books.decisions.of_job(second)
    assert why.decision.together is not None and asked(house, second).startswith("gres/shard:g")
    for job in first:
        house.user_edits(job, comment="app:sweep")
    house.pald.cycle()
    assert asked(house, second) == "gres/gpu:1"
    house.live(60)
    assert house.state(second) == "PENDING"


def test_where_sharing_is_switched_off_nobody_comes_to_another_any_more(sharing: Callable[..., House]) -> None:
    house = sharing()
    first = full(house)
    second = house.submit(*ONE, SHARES)
    house.pald.cycle()
    assert asked(house, second).startswith("gres/shard:g")
    lock = {"leader": {"lock_file": str(house.home / "pald.lock")}}
    house.pald.reload(settings(house.home, {**lock, **house.keys, "sharing": {"enabled": False}}))
    house.pald.cycle()
    assert asked(house, second) == "gres/gpu:1"
    house.live(60)
    assert house.state(second) == "PENDING" and {house.state(job) for job in first} == {"RUNNING"}


def test_who_says_pal_share_only_after_the_submission_has_a_whole_gpu(sharing: Callable[..., House]) -> None:
    house = sharing()
    job = house.submit(*ONE, "--comment=app:sweep")
    house.user_edits(job, comment="app:sweep pal:share")
    house.live(15)
    assert house.state(job) == "RUNNING" and asked(house, job).startswith("gres/gpu:g")


def test_where_users_ask_for_parts_themselves_nobody_has_one_of_ours_for_a_stranger_could_come_to_it(
    sharing: Callable[..., House],
) -> None:
    house = sharing()
    house.controller.plugin = Leasing(lambda now: True, shards="users")
    job = house.submit(*ONE, SHARES)
    house.live(15)
    assert house.state(job) == "RUNNING" and asked(house, job).startswith("gres/gpu:g")
    (why,) = house.pald.pald.cycle.books.decisions.of_job(job)
    assert "users may ask for parts of GPUs themselves here" in " ".join(sentences(why))


def test_undo_gives_the_whole_gpu_back_without_pald_and_its_database(sharing: Callable[..., House]) -> None:
    house = sharing()
    job = house.submit("--gpus=1", "--mem=1000", SHARES)
    house.pald.cycle()
    assert asked(house, job).startswith("gres/shard:g")
    house.kill()
    for file in house.home.iterdir():
        file.unlink()
    found = house.slurm.snapshot()
    results = undo(house.slurm, ours(found), found.taken)
    assert {result.outcome for result in results} == {Outcome.DONE}
    record = house.job(job).record
    assert (record.per_node, record.per_job, record.required_nodes) == ("", "gres/gpu:1", "")


@pytest.mark.parametrize(
    ("setup", "keys"),
    [
        ({}, {"sharing": {"enabled": False}}),
        ({"task_prolog": ""}, {}),
        ({"release": "22.05.8"}, {}),
        ({}, {"precision": "node"}),
        ({}, {"shards": 0}),
        ({}, {"shards": 1}),
        ({}, {"knowledge": replace(KNOWN, pairs=NOBODY_SHARES)}),
    ],
    ids=["off", "no task prolog", "22.05", "by nodes", "no shards", "one shard a GPU", "no pairs"],
)
def test_where_it_can_not_be_or_is_not_wanted_every_job_has_a_whole_gpu(
    sharing: Callable[..., House], setup: dict[str, Any], keys: dict[str, Any]
) -> None:
    house = sharing(setup=replace(SETUP, **setup), release=setup.get("release", "26.05")[:5], **keys)
    jobs = [house.submit(*ONE, SHARES, runs=3000) for _ in range(5)]
    house.live(60)
    assert [house.state(job) for job in jobs] == ["RUNNING"] * 4 + ["PENDING"]
    assert not [update for update in house.journal if "shard" in str(update.asked.texts)]
    told = [note for note in house.pald.pald.notes if note.startswith("no two jobs get one GPU: ")]
    assert len(told) == bool(setup or "precision" in keys)  # it is switched on, and can't be


def an_hour(house: House) -> None:
    """Both halves of pairs, a pin that is taken back, somebody else who waits."""
    full(house, runs=200, user="ann")
    for name in ("ann", "ann", "bob"):
        house.submit(*ONE, SHARES, runs=200, user=name)
    house.live(10)
    back = house.submit(*ONE, SHARES, runs=200, user="ann")
    house.user_edits(back, comment="app:sweep")
    house.live(20)


@pytest.mark.parametrize("part", [pytest.param(part, marks=[pytest.mark.slow] if part else []) for part in range(6)])
def test_a_crash_at_any_write_leaves_no_third_on_a_gpu_and_no_pin_behind(
    part: int, sharing: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, fuse = sharing(shards=3), Fuse()
    with armed(counted, fuse, monkeypatch):
        an_hour(counted)
    assert fuse.passed > 30
    for at in range(1 + part, fuse.passed + 1, 6):
        house = sharing(shards=3)
        with suppress(Crash, AssertionError), armed(house, Fuse(at), monkeypatch):
            an_hour(house)
        house.restart()
        for name in ("ann", "bob", "ann"):
            house.submit(*ONE, SHARES, runs=200, user=name)
        house.live(2000)
        assert not house.controller.pending, f"crash at write {at}: a job never started"
        assert house.pald.pald.cycle.books.ledger.watched() == [], f"crash at write {at}: something is watched for ever"
        assert wrong_company(house) == [], f"crash at write {at}"


def wrong_company(house: House) -> list[str]:
    """More than two on a GPU at a time, or two of unlike owners."""
    runs = [(job, job.job()) for job in house.controller.done if job.job().parts]
    found = []
    for job, told in runs:
        there = [
            other for other, held in runs
            if (held.nodes, held.parts) == (told.nodes, told.parts) and other.started <= job.started < other.ended
        ]  # fmt: skip
        if len(there) > 2 or len({other.record.user for other in there}) > 1:
            found.append(f"job {told.id}: {[(other.record.id, other.record.user) for other in there]}")
    return found
