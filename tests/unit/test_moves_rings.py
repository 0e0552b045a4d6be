"""Rings: jobs that all leave their GPUs, and each takes those of the next; whoever drops out, the others run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pal_slurm.guard import Cause, MoveRules, Refusal, Rules, check
from pal_slurm.guard.running import MOST_RING
from pal_slurm.model import Action, Decision, EditKind, Ending, MoveTerms, Placement, Reason
from pal_slurm.sim.slurm.manners import Manners
from pal_slurm.sim.slurm.trouble import AnswerFate
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import House

Make = Callable[..., House]
LONG_S = 50_000.0
BEGINS = (EditKind.FENCE, EditKind.REQUEUE)


class Ring:
    """Two jobs of two GPUs on each of four nodes; each of the first `size` is to take the GPUs of the next."""

    def __init__(self, house: House, size: int = 8, rival: bool = False) -> None:
        self.house = house
        for number in range(8):
            words = ("--comment=pal:move", "--gres=gpu:2")
            house.submit(*words, runs=LONG_S, manners=Manners(term_s=1.0 + number % 3), user=f"u{number}")
            house.live(5)
        self.jobs = list(range(1, 9))
        self.were = {job: house.where(job) for job in self.jobs}
        self.size, self.rival = size, 0
        if rival:
            house.lua_alive = False
            self.rival = house.submit("--gres=gpu:2", runs=LONG_S)
            house.live(8)
            house.lua_alive = True

    def holder(self, job: int) -> int:
        """Whose GPUs it takes."""
        return job % self.size + 1

    def decisions(self) -> list[Decision]:
        return [
            Decision(
                job, None, Action.MOVE, Reason.BETTER_GPUS, self.place(self.holder(job)), 1.0,
                terms=MoveTerms(60.0, 600.0, 1.2, self.holder(job)),
            )
            for job in self.jobs[: self.size]
        ]  # fmt: skip

    def place(self, job: int) -> Placement:
        ((node, slots),) = self.were[job].items()
        return there(node, *slots)

    def turn(self) -> None:
        wanted = Wanted(self.house)
        for decision in self.decisions():
            wanted.move(decision.job, decision.placement, partner=self.holder(decision.job))

    def begin(self) -> None:
        self.turn()
        while not moves_of(self.house, 1):
            self.house.live(0.05)

    def all_run(self) -> None:
        """Each on two GPUs, nobody on another one's."""
        held = [(node, slot) for job in self.jobs for node, slots in self.house.where(job).items() for slot in slots]
        assert len(held) == 16 == len(set(held))
        assert {self.house.state(job) for job in self.jobs} == {"RUNNING"}
        assert self.house.controller.reservations == []
        if self.rival:
            assert self.house.state(self.rival) == "PENDING"

    def ends(self) -> dict[int, Ending | None]:
        return {job: the_move(self.house, job).ending for job in self.jobs[: self.size]}


@pytest.fixture(params=["26.05", pytest.param("24.11", marks=pytest.mark.slow)])
def home(request: pytest.FixtureRequest, make_house: Make) -> House:
    return make_house(release=request.param, **QUICK_MOVES)


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("size", [3, 8])
def test_all_of_a_ring_on_a_full_cluster_get_the_gpus_of_the_next(home: House, size: int, rival: bool) -> None:
    ring = Ring(home, size, rival)
    ring.turn()
    home.live(40)
    ring.all_run()
    assert all(home.where(job) == ring.were[ring.holder(job)] for job in ring.jobs[:size])
    assert set(ring.ends().values()) == {Ending.MOVED}
    assert [home.job(job).record.restarts for job in ring.jobs] == [1] * size + [0] * (8 - size)
    if rival:
        assert [i.edit.kind for i in home.intents(1) if i.edit.kind in BEGINS] == list(BEGINS)


def test_where_one_of_a_ring_may_not_go_nobody_goes(home: House) -> None:
    ring = Ring(home)
    home.user_edits(4, comment="pal:stay")
    ring.turn()
    home.live(20)
    assert [moves_of(home, job) for job in ring.jobs] == [[]] * 8


def test_a_ring_is_no_longer_than_eight_and_must_close(make_house: Make) -> None:
    house = make_house(count=5, **QUICK_MOVES)
    ring = Ring(house)
    last = house.submit("--comment=pal:move", "--gres=gpu:2", runs=LONG_S)
    house.live(5)
    ring.jobs.append(last)
    ring.were[last] = house.where(last)
    ring.size = 9
    rules = Rules(disable_job_shrink=True, moves=MoveRules(first_s=0.0, share=0.5, at_once=20))
    assert len(ring.decisions()) == MOST_RING + 1
    verdicts = check(ring.decisions(), house.slurm.snapshot(), rules)
    assert [verdict.reason for verdict in verdicts if isinstance(verdict, Refusal)] == [Cause.GPU_TAKEN] * 9
    ring.size = 8
    open_end = [d for d in ring.decisions() if d.job != 5]
    assert all(isinstance(verdict, Refusal) for verdict in check(open_end, house.slurm.snapshot(), rules))


@pytest.mark.parametrize("rival", [False, True])
def test_who_ends_in_the_middle_of_a_ring_keeps_no_other_one(home: House, rival: bool) -> None:
    ring = Ring(home, rival=rival)
    ring.begin()
    home.controller.cancel(3)
    home.live(60)
    others = [job for job in ring.jobs if job != 3]
    assert {home.state(job) for job in others} == {"RUNNING"}
    held = [(node, slot) for job in others for node, slots in home.where(job).items() for slot in slots]
    assert len(held) == 14 == len(set(held))
    assert all(home.where(job) == ring.were[ring.holder(job)] for job in others)
    assert home.controller.reservations == []


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("dropped", [1, 3, 8])
def test_where_one_of_a_ring_stays_the_one_behind_it_takes_the_place_it_was_to_take(
    home: House, dropped: int, rival: bool
) -> None:
    """slurmctld refuses its requeue: its user wrote Requeue=0 meanwhile."""
    ring = Ring(home, rival=rival)
    ring.turn()
    home.watch.stay = frozenset({str(dropped)})
    home.live(60)
    ring.all_run()
    assert home.where(dropped) == ring.were[dropped] and home.job(dropped).record.restarts == 0
    assert ring.ends()[dropped] is Ending.STAYED
    behind = (dropped - 2) % 8 + 1
    moved = [job for job in ring.jobs if job not in (dropped, behind)]
    assert all(home.where(job) == ring.were[ring.holder(job)] for job in moved)
    assert home.where(behind) == ring.were[ring.holder(dropped)]


def test_where_two_neighbours_of_a_ring_stay_the_others_run(home: House) -> None:
    ring = Ring(home, rival=True)
    ring.turn()
    home.watch.stay = frozenset({"3", "4"})
    home.live(60)
    ring.all_run()
    assert home.where(2) == ring.were[5]


@pytest.mark.every(3)
def test_two_of_a_ring_are_never_pinned_to_the_same_gpus(home: House) -> None:
    """One stays, so the one behind it takes another place; a node is drained, so others would go back to theirs."""
    ring = Ring(home, rival=True)
    ring.turn()
    home.watch.stay = frozenset({"3"})
    while not any(home.state(job) == "PENDING" for job in ring.jobs):
        home.live(0.05)
    home.controller.set_node("n3", "DRAIN")
    until = home.now + 60
    while home.now < until:
        home.live(0.05)
        waiting = [home.job(job).job() for job in ring.jobs if home.state(job) == "PENDING"]
        pins = [(job.required_nodes, job.slots) for job in waiting if job.required_nodes]
        assert len(pins) == len(set(pins)), pins
    assert [home.state(job) for job in ring.jobs].count("RUNNING") == 6, "three nodes have room for them"


@pytest.mark.parametrize("refused", [1, 8])
def test_where_one_fence_of_a_ring_is_refused_nobody_goes(home: House, refused: int) -> None:
    ring = Ring(home, rival=True)
    home.watch.fates = [*([AnswerFate.WHOLE] * (refused - 1)), "Access/permission denied"]
    ring.turn()
    home.live(30)
    assert set(ring.ends().values()) == {Ending.STAYED}
    assert [home.job(job).record.restarts for job in ring.jobs] == [0] * 8
    ring.all_run()


@pytest.mark.parametrize("node", ["n1", "n3"])
def test_when_a_node_of_a_ring_is_drained_in_the_middle_everybody_runs_who_has_room(home: House, node: str) -> None:
    ring = Ring(home, rival=True)
    ring.begin()
    while not any(home.state(job) == "PENDING" for job in ring.jobs):
        home.live(0.05)
    home.controller.set_node(node, "DRAIN")
    home.live(150)
    running = [job for job in ring.jobs if home.state(job) == "RUNNING"]
    assert len(running) >= 6 and home.controller.reservations == []
    home.controller.set_node(node, "IDLE")
    home.live(60)
    everybody = [home.state(job) for job in (*ring.jobs, ring.rival)]
    assert everybody.count("RUNNING") == 8, "all GPUs are used again"


@pytest.mark.parametrize(
    ("rest", "light", "heavy"),
    [
        (("-c22",), ("-c1",), ("-c6",)),  # of 32 CPUs
        (("--mem=60000",), ("--mem=1000",), ("--mem=40000",)),  # of 128,000 MB
    ],
    ids=["cpus", "memory"],
)
def test_two_exchanges_on_one_node_are_given_its_room_once(
    make_house: Make, rest: tuple[str, ...], light: tuple[str, ...], heavy: tuple[str, ...]
) -> None:
    """Each of the two alone has room there; both together would leave one without GPUs."""
    house = make_house(count=2, **QUICK_MOVES)
    jobs = []
    for words in (("--gres=gpu:2", *rest), *[("--gres=gpu:1", *words) for words in (light, light, heavy, heavy)]):
        jobs.append(house.submit("--comment=pal:move", *words, runs=LONG_S))
        house.live(6)
    _, *jobs = jobs
    were = {job: house.where(job) for job in jobs}
    assert [list(were[job]) for job in jobs] == [["n1"], ["n1"], ["n2"], ["n2"]]
    wanted, partner = Wanted(house), dict(zip(jobs, [*jobs[2:], *jobs[:2]], strict=True))
    for job in jobs:
        ((node, slots),) = were[partner[job]].items()
        wanted.move(job, there(node, *slots), partner=partner[job])
    house.live(40)
    assert [house.job(job).record.restarts for job in jobs] == [1, 0, 1, 0]
    assert [house.where(job) for job in jobs] == [were[jobs[2]], were[jobs[1]], were[jobs[0]], were[jobs[3]]]


def test_a_ring_that_falls_leaves_its_room_to_others(make_house: Make) -> None:
    """The second member of the first ring may not go: what the first one would have left is not given away."""
    house = make_house(count=2, **QUICK_MOVES)
    words = [("--gres=gpu:2", "-c30"), *[("--gres=gpu:1", "-c1")] * 2, *[("--gres=gpu:1", "-c2")] * 2]
    jobs = []
    for some in words:
        jobs.append(house.submit("--comment=pal:move", *some, runs=LONG_S))
        house.live(6)
    _, a, b, c, d = jobs
    assert list(house.where(a)) == list(house.where(b)) == ["n1"] and list(house.where(c)) == ["n2"]
    house.user_edits(c, comment="pal:stay")
    decisions = []
    for job, partner in ((a, c), (c, a), (b, d), (d, b)):
        ((node, slots),) = house.where(partner).items()
        terms = MoveTerms(60.0, 600.0, 1.2, partner)
        decisions.append(Decision(job, None, Action.MOVE, Reason.BETTER_GPUS, there(node, *slots), 1.0, terms=terms))
    rules = Rules(disable_job_shrink=True, moves=MoveRules(first_s=0.0, share=0.5, at_once=20))
    refused = {
        v.decision.job: v.reason for v in check(decisions, house.slurm.snapshot(), rules) if isinstance(v, Refusal)
    }
    assert refused == {a: Cause.PARTNER, c: Cause.NO_CONSENT, b: Cause.PARTNER, d: Cause.CPUS}
