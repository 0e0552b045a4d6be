"""Gatherings: a job that is spread over two nodes and those who hold the GPUs of a third one, whoever drops out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import cast

import pytest

from pal_slurm.guard import Cause, MoveRules, Refusal, Rules, check
from pal_slurm.model import Action, Decision, Ending, MoveTerms, Reason
from pal_slurm.sim.slurm.manners import Manners
from pal_slurm.sim.slurm.trouble import AnswerFate
from tests.moves_faults import FAULTS, Mover
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import Crash, House
from tests.unit.test_daemon_crashes import Fuse, armed

Make = Callable[..., House]
LONG_S = 50_000.0
RULES = Rules(disable_job_shrink=True, exact_slots=True, moves=MoveRules(first_s=0.0, share=0.5, at_once=20))


class Gathering:
    """Four GPUs on n1 and n2, four jobs of one GPU on n3; the rest of the cluster is in use."""

    def __init__(self, house: House, *, rival: bool = False, words: tuple[str, ...] = ()) -> None:
        self.house, self.rival = house, 0
        for node, gpus in (("n1", 2), ("n2", 2), ("n4", 4)):
            self._run(f"--gres=gpu:{gpus}", "-w", node)
        on_n3 = self._run("--gres=gpu:4", "-w", "n3")
        self.wide = self._run("--comment=pal:move", "-n4", "--gpus=4", user="wide", slow=2.0)
        house.controller.cancel(on_n3)
        house.live(3)
        self.small = [
            self._run("--comment=pal:move", "--gres=gpu:1", *words, user=f"u{n}", slow=1.0 + n) for n in range(4)
        ]
        self.jobs = [self.wide, *self.small]
        self.were = {job: house.where(job) for job in self.jobs}
        assert self.were[self.wide] == {"n1": (2, 3), "n2": (2, 3)}
        assert all(list(self.were[job]) == ["n3"] for job in self.small)
        places = [(node, slot) for node, slots in self.were[self.wide].items() for slot in slots]
        self.targets = {self.wide: there("n3", 0, 1, 2, 3)}
        self.targets |= {job: there(*place) for job, place in zip(self.small, places, strict=True)}
        if rival:
            house.lua_alive = False
            self.rival = house.submit("--gres=gpu:1", runs=LONG_S)
            house.live(8)
            house.lua_alive = True

    def _run(self, *options: str, user: str = "u", slow: float = 1.0) -> int:
        job = self.house.submit(*options, runs=LONG_S, user=user, manners=Manners(term_s=slow))
        self.house.live(6)
        assert self.house.state(job) == "RUNNING", options
        return job

    def decisions(self) -> list[Decision]:
        terms = dict.fromkeys(self.small, MoveTerms(60.0, 0.0, 1.2, self.wide))
        terms[self.wide] = MoveTerms(60.0, 600.0, 1.2, self.small[0], further=tuple(self.small[1:]))
        return [
            Decision(job, None, Action.MOVE, Reason.BETTER_GPUS, self.targets[job], 1.0, terms=terms[job])
            for job in self.jobs
        ]

    def gather(self) -> None:
        wanted = Wanted(self.house)
        wanted.decisions.extend(self.decisions())
        self.house.pald.pald.cycle.movers.proposes = wanted

    def begin(self) -> None:
        self.gather()
        self.since = self.house.now
        while not moves_of(self.house, self.wide):
            self.house.live(0.05)

    def until_one_waits(self) -> None:
        while not any(self.house.state(job) == "PENDING" for job in self.jobs):
            self.house.live(0.05)

    def nobody_shares(self, but: str = "") -> None:
        held = [
            (node, slot)
            for job in self.jobs
            if self.house.state(job) == "RUNNING"
            for node, slots in self.house.where(job).items()
            for slot in slots
        ]
        assert len(held) == len(set(held))
        assert [r for r in self.house.controller.reservations if r.name != but] == []

    def all_run(self, *but: int) -> None:
        states = {job: self.house.state(job) for job in self.jobs if job not in but}
        assert set(states.values()) == {"RUNNING"}, states
        for job in states:
            assert sum(map(len, self.house.where(job).values())) == (4 if job == self.wide else 1)
            assert self.house.job(job).record.nice in (None, 0)
        self.nobody_shares()
        assert not self.house.pald.pald.cycle.movers.repo.open()

    def went(self, job: int) -> bool:
        where = self.targets[job]
        return self.house.where(job) == dict(zip(where.nodes, where.gpus, strict=True))


@pytest.fixture(params=["26.05", pytest.param("24.11", marks=pytest.mark.slow)])
def home(request: pytest.FixtureRequest, make_house: Make) -> House:
    return make_house(release=request.param, **QUICK_MOVES)


@pytest.mark.parametrize("rival", [False, True])
def test_a_spread_job_and_those_who_hold_the_gpus_of_a_node_change_places(home: House, rival: bool) -> None:
    group = Gathering(home, rival=rival)
    group.gather()
    home.live(40)
    group.all_run()
    assert all(map(group.went, group.jobs))
    assert {the_move(home, job).ending for job in group.jobs} == {Ending.MOVED}
    assert [home.job(job).record.restarts for job in group.jobs] == [1] * 5
    assert not rival or home.state(group.rival) == "PENDING"


def test_where_one_may_not_go_nobody_goes(home: House) -> None:
    group = Gathering(home)
    home.user_edits(group.small[2], comment="pal:stay")
    group.gather()
    home.live(20)
    assert [moves_of(home, job) for job in group.jobs] == [[]] * 5


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("stays", [(0,), (1,), (4,), (2, 3), (0, 1)])
def test_where_one_stays_everybody_runs_where_he_ran(home: House, stays: tuple[int, ...], rival: bool) -> None:
    """slurmctld refuses its requeue: its user wrote Requeue=0 meanwhile. 0: the spread one."""
    group = Gathering(home, rival=rival)
    group.gather()
    home.watch.stay = frozenset(str(group.jobs[i]) for i in stays)
    home.live(60)
    group.all_run()
    assert {job: home.where(job) for job in group.jobs} == group.were
    assert [home.job(job).record.restarts for job in group.jobs] == [int(i not in stays) for i in range(5)]
    if rival:
        assert home.state(group.rival) == "PENDING"


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("ends", [0, 1, 4])
def test_who_ends_in_the_middle_keeps_no_other_one(home: House, ends: int, rival: bool) -> None:
    group = Gathering(home, rival=rival)
    group.begin()
    home.controller.cancel(group.jobs[ends])
    home.live(60)
    group.all_run(group.jobs[ends])
    assert all(group.went(job) for job in group.jobs if job != group.jobs[ends])


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("node", ["n1", "n3"])
def test_when_a_node_is_drained_in_the_middle_everybody_runs_in_the_end(home: House, node: str, rival: bool) -> None:
    group = Gathering(home, rival=rival)
    group.begin()
    group.until_one_waits()
    home.controller.set_node(node, "DRAIN")
    home.live(150)
    group.nobody_shares()
    home.controller.set_node(node, "IDLE")
    home.live(150)
    if group.rival and home.state(group.rival) == "RUNNING":  # it waited for a GPU, and found one
        home.controller.cancel(group.rival)
        home.live(60)
    group.all_run()


@pytest.mark.parametrize("refused", [1, 3, 5])
def test_where_one_fence_is_refused_nobody_goes(home: House, refused: int) -> None:
    group = Gathering(home, rival=True)
    home.watch.fates = [*([AnswerFate.WHOLE] * (refused - 1)), "Access/permission denied"]
    group.gather()
    home.live(30)
    assert {the_move(home, job).ending for job in group.jobs} == {Ending.STAYED}
    assert [home.job(job).record.restarts for job in group.jobs] == [0] * 5
    group.all_run()


@dataclass
class OnWay:
    """One of the group, as the faults of tests/moves_faults.py want it."""

    house: House
    job: int
    target: str

    @property
    def state(self) -> str:
        return self.house.state(self.job)


@pytest.mark.every(8)
@pytest.mark.parametrize(("member", "rival"), [(0, False), (1, False), (0, True), (4, True)])
@pytest.mark.parametrize("step", ["begun", "COMPLETING", "PENDING", "pinned"])
@pytest.mark.parametrize("fault", FAULTS)
def test_after_any_fault_at_any_step_everybody_runs_who_has_room(
    home: House, fault: str, step: str, member: int, rival: bool
) -> None:
    group = Gathering(home, rival=rival)
    job = group.jobs[member]
    at = OnWay(home, job, group.targets[job].nodes[0])
    group.begin()
    while step != "begun" and not (at.state == step or (step == "pinned" and home.job(job).job().required_nodes)):
        home.live(0.05)
        assert home.now < group.since + 60
    FAULTS[fault](cast("Mover", at))
    home.live(300)
    group.nobody_shares("maint")
    home.controller.reservations.clear()
    for node in ("n1", "n2", "n3", "n4"):
        home.controller.set_node(node, "IDLE")
    for other in {*home.controller.pending, *home.controller.running} - set(group.jobs):  # they may have more room now
        home.controller.cancel(other)
    home.live(200)
    gone = [job] if home.state(job) in ("CANCELLED", "COMPLETED") else []
    assert not gone or fault in ("user cancels", "job ends")
    group.all_run(*gone)


@pytest.mark.slow
@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("stays", [None, 1])
@pytest.mark.parametrize("part", range(8))
def test_a_crash_at_any_write_of_a_gathering_leaves_everybody_running(
    part: int, stays: int | None, rival: bool, make_house: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gathers(fuse: Fuse) -> Gathering:
        house = make_house(**QUICK_MOVES)
        group = Gathering(house, rival=rival)
        if stays is not None:
            house.watch.stay = frozenset({str(group.jobs[stays])})
        with suppress(Crash), armed(house, fuse, monkeypatch):
            group.gather()
            house.live(40)
        return group

    gathers(whole := Fuse())
    for at in range(1 + part, whole.passed + 1, 8):
        group = gathers(Fuse(at))
        group.house.restart()
        group.house.live(250)
        if group.rival and group.house.state(group.rival) == "RUNNING":
            group.house.controller.cancel(group.rival)
            group.house.live(60)
        group.all_run()


def test_the_guard_lets_only_those_gather_who_take_what_the_others_leave(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    group = Gathering(house)
    view = house.slurm.snapshot()

    def refused(found: list[Decision], seen=view) -> set[Cause]:  # type: ignore[no-untyped-def]
        verdicts = check(found, seen, RULES)
        assert len({isinstance(verdict, Refusal) for verdict in verdicts}) == 1, "all go, or none"
        return {verdict.reason for verdict in verdicts if isinstance(verdict, Refusal)}

    made = group.decisions()
    assert refused(made) == set()
    for left in (*combinations(made, 4), made[1:]):
        assert refused(list(left)), "one of them does not go"
    twice = [*made[:4], replace(made[4], placement=made[3].placement)]
    assert Cause.GPU_TAKEN in refused(twice)
    free = view.cluster.gpu_free.copy()
    free[3, 0] = True
    with_free = replace(view, cluster=replace(view.cluster, gpu_free=free))
    assert Cause.PARTNER in refused([*made[:4], replace(made[4], placement=there("n4", 0))], with_free)


@pytest.mark.parametrize(("words", "room"), [(("-c6",), (8, 40_000)), (("--mem=30000",), (20, 40_000))])
def test_several_that_go_to_one_node_are_given_its_room_once(
    make_house: Make, words: tuple[str, ...], room: tuple[int, int]
) -> None:
    """Each alone has room there."""
    house = make_house(**QUICK_MOVES)
    group = Gathering(house, words=words)
    view = house.slurm.snapshot()
    cpus, mem_mb = view.cluster.cpus_free, view.cluster.mem_free_mb
    for factor, goes in ((1, False), (2, True)):
        most = [factor * most for most in room]
        tight = replace(view.cluster, cpus_free=cpus.clip(max=most[0]), mem_free_mb=mem_mb.clip(max=most[1]))
        verdicts = check(group.decisions(), replace(view, cluster=tight), RULES)
        assert {not isinstance(verdict, Refusal) for verdict in verdicts} == {goes}
