"""A fence keeps those who wait without a lease from the GPUs of movers, and never keeps GPUs from anybody for long."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pal_slurm.daemon.undo import fences, ours, undo
from pal_slurm.guard import Cause, MoveRules, Refusal, Rules, check
from pal_slurm.model import Action, Decision, EditKind, Ending, MoveTerms, Placement, Reason
from pal_slurm.sim.slurm.manners import Manners, requeues
from tests.moving import QUICK_MOVES, Wanted, moves_of, the_move, there
from tests.simpald import Crash, House
from tests.unit.test_daemon_crashes import Fuse, armed

Make = Callable[..., House]
LONG_S = 50_000.0
WELL = Manners(term_s=2.0)
ENDS_BY_ITSELF_S = 120.0


class Full:
    """Four nodes, a job on each; a fifth, which nobody leases, waits for any of them."""

    def __init__(self, house: House, words: str = "pal:move", manners: Manners = WELL) -> None:
        self.house = house
        self.jobs = [self._run(words, manners) for _ in range(4)]
        self.where = [house.where(job) for job in self.jobs]
        house.lua_alive = False
        self.rival = house.submit("--gres=gpu:4", runs=LONG_S)
        house.live(8)
        house.lua_alive = True
        assert house.state(self.rival) == "PENDING"

    def _run(self, words: str, manners: Manners) -> int:
        job = self.house.submit(f"--comment={words}", "--gres=gpu:4", runs=LONG_S, manners=manners)
        self.house.live(5)
        assert self.house.state(job) == "RUNNING"
        return job

    def exchange(self) -> None:
        wanted = Wanted(self.house)
        for job, other, where in ((0, 1, self.where[1]), (1, 0, self.where[0])):
            ((node, slots),) = where.items()
            wanted.move(self.jobs[job], there(node, *slots), partner=self.jobs[other])

    @property
    def closed(self) -> list[str]:
        return [record.name for record in self.house.controller.reservations]


@pytest.fixture(params=["26.05", "24.11"])
def home(request: pytest.FixtureRequest, make_house: Make) -> House:
    return make_house(release=request.param, **QUICK_MOVES)


def kinds(house: House, job: int) -> list[EditKind]:
    move = the_move(house, job)
    return [i.edit.kind for i in house.pald.pald.cycle.books.ledger.steps_of([move.operation])[move.operation]]


def test_two_exchange_their_gpus_while_one_that_nobody_leases_waits_for_them(home: House) -> None:
    full = Full(home)
    full.exchange()
    home.live(30)
    assert [home.where(job) for job in full.jobs[:2]] == [full.where[1], full.where[0]]
    assert home.state(full.rival) == "PENDING" and full.closed == []
    assert [the_move(home, job).ending for job in full.jobs[:2]] == [Ending.MOVED] * 2
    assert kinds(home, full.jobs[0])[:2] == [EditKind.FENCE, EditKind.REQUEUE]


def test_a_fence_stands_before_a_job_is_asked_to_save(home: House) -> None:
    full = Full(home, "pal:move=USR1@30", Manners(2.0, 3.0, requeues))
    full.exchange()
    home.live(40)
    assert [home.where(job) for job in full.jobs[:2]] == [full.where[1], full.where[0]]
    assert kinds(home, full.jobs[0])[:2] == [EditKind.FENCE, EditKind.WARN]
    assert home.state(full.rival) == "PENDING" and full.closed == []


def test_without_a_fence_nobody_is_moved_meanwhile(make_house: Make) -> None:
    house = make_house(**{**QUICK_MOVES, "moves": {**QUICK_MOVES["moves"], "fence": False}})
    full = Full(house)
    full.exchange()
    house.live(30)
    assert moves_of(house, full.jobs[0]) == [] and house.job(full.jobs[0]).record.restarts == 0


def test_whole_nodes_are_not_closed_for_minutes_because_somebody_saves(make_house: Make) -> None:
    house = make_house(**QUICK_MOVES)
    full = Full(house, "pal:move=USR1@61", Manners(2.0, 3.0, requeues))
    full.exchange()
    house.live(30)
    assert moves_of(house, full.jobs[0]) == [] and full.closed == []


def test_where_a_fence_is_refused_nobody_goes(home: House) -> None:
    full = Full(home)
    home.watch.fates = ["Access/permission denied"] * 2
    full.exchange()
    home.live(30)
    assert [the_move(home, job).ending for job in full.jobs[:2]] == [Ending.STAYED] * 2
    assert [home.job(job).record.restarts for job in full.jobs] == [0] * 4


def test_where_one_of_two_fences_is_refused_neither_goes(home: House) -> None:
    full = Full(home)
    home.watch.fates = ["Access/permission denied"]
    full.exchange()
    home.live(30)
    assert [the_move(home, job).ending for job in full.jobs[:2]] == [Ending.STAYED] * 2
    assert [home.job(job).record.restarts for job in full.jobs] == [0] * 4 and full.closed == []


def beside_half_a_node(home: House, manners: Manners) -> tuple[int, int]:
    """One that moves on half of n3, another job on half of n4; the other two nodes are full."""
    others = [home.submit("--gres=gpu:4", "-w", name, runs=LONG_S) for name in ("n1", "n2", "n4")]
    home.live(8)
    mover = home.submit("--comment=pal:move", "--gres=gpu:2", runs=LONG_S, manners=manners)
    home.live(5)
    home.controller.cancel(others[-1])
    half = home.submit("--gres=gpu:2", "-w", "n4", runs=LONG_S)
    home.live(8)
    return mover, half


def unleased(home: House) -> int:
    """A job of a whole node, which waits without a lease."""
    home.lua_alive = False
    head = home.submit("--gres=gpu:4", runs=LONG_S)
    home.live(3)
    home.lua_alive = True
    return head


def test_a_mover_makes_room_for_a_job_that_nobody_leases_and_that_one_gets_it(home: House) -> None:
    mover, half = beside_half_a_node(home, Manners(2.0))
    head = unleased(home)
    home.live(20)
    slots = tuple(sorted(set(range(4)) - set(home.where(half)["n4"])))
    assert home.where(mover) == {"n4": slots} and home.where(head) == {"n3": (0, 1, 2, 3)}
    assert the_move(home, mover).makes_room_for == head and kinds(home, mover)[0] is EditKind.FENCE
    assert home.controller.reservations == []


def test_to_free_gpus_nobody_moves_ahead_of_one_that_waits_for_them(home: House) -> None:
    job = home.submit("--comment=pal:move", "--gres=gpu:2", runs=LONG_S)
    home.live(5)
    home.lua_alive = False
    home.submit("-N4", "--gres=gpu:4")
    home.live(3)
    Wanted(home).move(job, there("n3", 1, 3))
    home.live(30)
    assert moves_of(home, job) == []


def test_two_exchanges_between_the_same_nodes_do_not_keep_each_other_out(home: House) -> None:
    for _ in range(8):
        home.submit("--comment=pal:move", "--gres=gpu:2", runs=LONG_S, manners=WELL)
        home.live(5)
    on: dict[str, list[tuple[int, Placement]]] = {"n1": [], "n2": [], "n3": [], "n4": []}
    for number in range(1, 9):
        ((node, slots),) = home.where(number).items()
        on[node].append((number, there(node, *slots)))
    home.lua_alive = False
    rival = home.submit("--gres=gpu:4", runs=LONG_S)
    home.live(8)
    home.lua_alive = True
    wanted = Wanted(home)
    for (one, here), (other, yonder) in zip(on["n1"], on["n2"], strict=True):
        wanted.move(one, yonder, partner=other)
        wanted.move(other, here, partner=one)
    home.live(40)
    movers = [job for job, _ in (*on["n1"], *on["n2"])]
    assert [the_move(home, job).ending for job in movers] == [Ending.MOVED] * 4
    assert home.state(rival) == "PENDING" and home.controller.reservations == []


def test_who_saved_for_an_exchange_goes_back_where_the_other_one_does_not_answer(home: House) -> None:
    full = Full(home, "pal:move=USR1@30", Manners(2.0, 3.0, requeues))
    home.job(full.jobs[1]).manners = Manners(2.0, answer=None)
    full.exchange()
    home.live(100)
    assert [home.where(job) for job in full.jobs] == full.where and home.state(full.rival) == "PENDING"
    ends = [the_move(home, job) for job in full.jobs[:2]]
    assert [move.ending for move in ends] == [Ending.ELSEWHERE, Ending.STAYED]
    assert ends[0].said == "it is back where it ran" and full.closed == []


def test_who_makes_room_goes_back_where_its_target_is_lost_meanwhile(home: House) -> None:
    mover, _ = beside_half_a_node(home, Manners(4.0))
    was, head = home.where(mover), unleased(home)
    while home.job(mover).record.restarts == 0:
        home.live(0.05)
    home.controller.set_node("n4", "DRAIN")
    home.live(40)
    assert home.where(mover) == was and home.state(head) == "PENDING"
    assert the_move(home, mover).said == "it is back where it ran" and home.controller.reservations == []


def test_no_fence_is_set_up_around_a_job_that_is_pinned_there_and_about_to_start(make_house: Make) -> None:
    home = make_house(count=2, **QUICK_MOVES)
    pair = []
    for _ in range(2):
        pair.append(home.submit("--comment=pal:move", "--gres=gpu:3", runs=LONG_S))
        home.live(5)
    last = home.submit("--gres=gpu:1", runs=LONG_S)
    while not home.job(last).record.required_nodes:
        home.live(0.05)
    assert home.state(last) == "PENDING"
    (here, a), (yonder, b) = [next(iter(home.where(job).items())) for job in pair]
    ways = ((pair[0], pair[1], there(yonder, *b)), (pair[1], pair[0], there(here, *a)))
    wanted = [
        Decision(job, None, Action.MOVE, Reason.BETTER_GPUS, to, 1.0, terms=MoveTerms(60.0, 600.0, 1.2, other))
        for job, other, to in ways
    ]
    rules = Rules(disable_job_shrink=True, moves=MoveRules(first_s=0.0, share=0.5))
    verdicts = check(wanted, home.slurm.snapshot(), rules)
    assert all(isinstance(verdict, Refusal) for verdict in verdicts)
    assert Cause.WOULD_BE_TAKEN in {verdict.reason for verdict in verdicts if isinstance(verdict, Refusal)}
    home.live(5)
    assert home.state(last) == "RUNNING"
    assert not any(isinstance(v, Refusal) for v in check(wanted, home.slurm.snapshot(), rules))


@pytest.mark.parametrize("step", [EditKind.FENCE, EditKind.REQUEUE, EditKind.PIN])
def test_a_fence_that_a_dead_pald_leaves_behind_keeps_no_gpu_from_anybody(home: House, step: EditKind) -> None:
    full = Full(home)
    full.exchange()
    while not moves_of(home, full.jobs[0]) or kinds(home, full.jobs[0])[-1] is not step:
        home.live(0.05)
    home.kill()
    home.lua_alive = False
    home.alone(ENDS_BY_ITSELF_S + 60)
    assert full.closed == [] and all(found.whole.slots == 15 for found in home.controller.nodes)
    running = [job for job in (*full.jobs, full.rival) if home.state(job) == "RUNNING"]
    assert len(running) == 4, "each node is used again"
    home.pald = home.another()


def test_a_new_pald_lifts_what_an_old_one_left(home: House) -> None:
    full = Full(home)
    full.exchange()
    while not full.closed:
        home.live(0.05)
    assert len(full.closed) == 2
    for move in home.pald.pald.cycle.movers.repo.open():
        home.controller.cancel(move.job)
    home.restart()
    home.live(3)
    assert full.closed == []


def test_undo_all_lifts_fences_with_pald_and_its_database_gone(home: House) -> None:
    full = Full(home)
    full.exchange()
    while not full.closed:
        home.live(0.05)
    home.kill()
    found = home.slurm.snapshot()
    undo(home.slurm, ours(found), found.taken)
    home.slurm.lift(fences(found))
    assert full.closed == []
    home.pald = home.another()


def test_a_paused_pald_leaves_no_fence_and_who_was_stopped_for_a_move_runs_at_once(home: House) -> None:
    full = Full(home)
    full.exchange()
    while home.state(full.jobs[0]) != "PENDING":
        home.live(0.05)
    assert len(full.closed) == 2
    home.pald.pald.cycle.books.switches.pause("a window", home.now)
    home.live(15)
    assert full.closed == []
    assert [home.state(job) for job in (*full.jobs, full.rival)].count("RUNNING") == 4, "each node is used again"


@pytest.mark.slow
def test_a_crash_at_any_write_of_a_fenced_exchange_leaves_four_jobs_running_and_no_fence(
    make_house: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, fuse = make_house(**QUICK_MOVES), Fuse()
    full = Full(house)
    with armed(house, fuse, monkeypatch):
        full.exchange()
        house.live(30)
    for at in range(1, fuse.passed + 1):
        house = make_house(**QUICK_MOVES)
        full = Full(house)
        with suppress(Crash), armed(house, Fuse(at), monkeypatch):
            full.exchange()
            house.live(30)
        house.restart()
        house.live(250)
        running = [job for job in (*full.jobs, full.rival) if house.state(job) == "RUNNING"]
        assert len(running) == 4 and full.closed == [], f"crash at write {at}"
        waits = {move.job for move in house.pald.pald.cycle.movers.repo.open() if move.handed}
        assert waits <= {job for job in full.jobs if house.state(job) == "PENDING"}, f"crash at write {at}"
