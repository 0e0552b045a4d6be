"""A pald that was reloaded is the one that the new pal.yaml would have started, with what it knew."""

from __future__ import annotations

import math
import shutil
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from pal_slurm.config import NEED_RESTART, Config
from pal_slurm.config.keys import all_keys
from pal_slurm.config.rules import broken_rules
from pal_slurm.daemon.build import Pald, build
from pal_slurm.daemon.main import _tell
from pal_slurm.errors import ConfigError, NotLeader, PalError, SlurmUnavailable, StoreError
from pal_slurm.model import Knowledge
from pal_slurm.sim.daemon import settings
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.clock import SimClock
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.store import Store
from tests.builders import scores
from tests.moving import QUICK_MOVES
from tests.simcluster import nodes
from tests.simpald import SETUP, START, House

MakeHouse = Callable[..., House]
PAIR = {"app": "net", "beside": "bert", "factor": 1.3, "back": 1.2}
# Of every key that a reload takes another value than `settings` has.
OTHER: Mapping[str, Any] = {
    "actuator": "move", "precision": "node", "apps": {"net": {"class": "B"}},
    "patterns": [{"app": "net", "job_name": "net*"}],
    "policy.name": "packed", "policy.order": "fifo", "policy.placement": "lv", "policy.patience": "fixed(60,120)",
    "policy.pools": "best", "policy.entitlement": "gavel/max-min", "policy.moving": "none",
    "policy.preemption": "none", "policy.backfill": False,
    "canary.percent": 50.0, "canary.partitions": ["gpu"],
    "lease.length_s": 30.0, "lease.max_s": 300.0, "lease.margin_s": 5.0, "lease.spare_preempting": True,
    "lease.let_through": True,
    "cycle.interval_s": 4.0, "cycle.max_age_s": 20.0, "cycle.wake_file": "HOME/wake", "cycle.alive_file": "HOME/alive",
    "budget.edits_per_s": 7.0, "budget.start_share": 0.2, "budget.keep_share": 0.2, "budget.read_share": 0.2,
    "moves.mode": "asked", "moves.qos": ["low"], "moves.partitions": ["gpu"], "moves.margin": 3.0,
    "moves.first_s": 10.0, "moves.last_s": 10.0, "moves.per_job": 1, "moves.per_user": 1, "moves.per_cluster": 1,
    "moves.at_once": 1, "moves.fence": False, "moves.share": 0.5, "moves.cost_s": 7.0, "moves.large_cost_s": 8.0,
    "moves.large_gpus": 5,
    "pools.dearer": "ok", "pools.billing": {"a100": 2.0}, "pools.wait_s": 60.0,
    "sharing.enabled": True, "sharing.pairs": [PAIR], "sharing.pairs_file": "HOME/pairs.json",
    "sharing.estimate": True,
    "exclude.worse": 0.3, "exclude.most_wait_s": 30.0,
    "classes.names": ["A", "B"], "classes.default": "B",
    "scores.stale_after_days": 3.0,
    "profile.spool": "HOME/spool",
    "profile.logs": "HOME/logs", "profile.command": "probe", "profile.kernels": {"resnet": "B"},
    "profile.partition": "gpu", "profile.qos": "low", "profile.account": "ops", "profile.minutes": 5.0,
    "profile.max_parallel": 1, "profile.give_way": False,
    "learning.enabled": True, "learning.interval_s": 5.0,
    "page.listen": "127.0.0.1:1", "page.user_header": "X-User", "page.proxy": "192.0.2.1", "page.privacy": "open",
    "page.admins": ["root"],
    "page.hosts": ["gpu.example.org"], "page.most_clients": 9, "page.jwt_key": "HOME/key", "page.url_file": "HOME/url",
    "page.view_file": "HOME/view",
}  # fmt: skip
RESTART: Mapping[str, Any] = {
    "database.keep_days": 5.0, "cluster.timeout_s": 3.0, "state_dir": "/elsewhere", "leader.ttl_s": 60.0,
    "metrics.listen": "127.0.0.1:1", "users.per_minute": 3,
}  # fmt: skip


def written(home: Path, *keys: str) -> Config:
    """As `settings`, with these keys as in OTHER or RESTART."""
    made: dict[str, Any] = {}
    if "page.user_header" in keys:
        keys = (*keys, "page.proxy")
    for key in keys:
        section, _, name = key.rpartition(".")
        value = {**OTHER, **RESTART}[key]
        value = value.replace("HOME", str(home)) if isinstance(value, str) else value
        if section:
            made.setdefault(section, {})[name] = value
        else:
            made[name] = value
    return settings(home, made)


def begun(config: Config) -> Pald:
    """A pald that has not looked yet, on a cluster of its own."""
    controller = Controller(nodes(1, 4), {"gpu": ["n1"]}, SETUP, START)
    return build(config, SimClock(controller), SimSlurm(controller))


LEAVES = (str, int, float, bool, bytes, type(None), Path)
OTHERS = (types.ModuleType, type, types.BuiltinFunctionType, Store)


def within(thing: object, path: str, seen: dict[int, object]) -> Iterator[tuple[str, object]]:
    """All plain values that can be reached from a pald, also by what its functions close over."""
    if isinstance(thing, LEAVES):
        yield path, thing
    elif id(thing) not in seen and not isinstance(thing, OTHERS):
        seen[id(thing)] = thing
        for name, part in parts(thing):
            yield from within(part, f"{path}.{name}", seen)


def parts(thing: object) -> Iterator[tuple[str, object]]:
    if isinstance(thing, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
    elif isinstance(thing, set | frozenset):
        yield from enumerated(sorted(thing, key=repr))
    elif isinstance(thing, list | tuple):
        yield from enumerated(thing)
    elif isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        yield from zip(thing.__code__.co_freevars, cells, strict=True)
        yield "defaults", thing.__defaults__
    elif isinstance(thing, types.MethodType):
        yield "self", thing.__self__
    elif isinstance(thing, partial):
        yield from (("func", thing.func), ("args", thing.args), ("kept", thing.keywords))
    elif type(thing).__module__.startswith("pal_slurm"):
        yield "kind", type(thing).__qualname__
        kinds = type(thing).__mro__
        names = [*getattr(thing, "__dict__", ()), *(s for kind in kinds for s in getattr(kind, "__slots__", ()))]
        names += getattr(type(thing), "__struct_fields__", ())
        yield from ((name, getattr(thing, name)) for name in dict.fromkeys(names) if hasattr(thing, name))


def enumerated(things: Iterable[object]) -> Iterator[tuple[str, object]]:
    return ((f"[{i}]", thing) for i, thing in enumerate(things))


def settled(pald: Pald) -> dict[str, object]:
    """Without what each one draws."""
    return {path: value for path, value in within(pald, "pald", {}) if not path.endswith(".alive._version")}


@pytest.fixture
def home(sqlite_template: Path, tmp_path: Path) -> Path:
    shutil.copy(sqlite_template, tmp_path / "pal.sqlite")
    return tmp_path


def wait_for(there: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not there():
        assert time.monotonic() < until
        time.sleep(0.02)


def same_as_begun(home: Path, before: Config, after: Config) -> None:
    reloaded, fresh = begun(before), begun(after)
    try:
        reloaded = reloaded.reloaded(after)
        found, wanted = settled(reloaded), settled(fresh)
        # What was held is given back by who held it: another start would not know of that.
        found["pald.state.back.why"] = wanted["pald.state.back.why"]
        differ = {key for key in {*found, *wanted} if found.get(key, "-") != wanted.get(key, "-")}
        assert {key: (found.get(key, "-"), wanted.get(key, "-")) for key in differ} == {}
        assert reloaded.describe() == fresh.describe() and reloaded.notes == fresh.notes
    finally:
        reloaded.close()
        fresh.close()


def test_every_key_is_one_that_a_reload_takes_or_one_that_needs_a_restart() -> None:
    leaves = {key.path for key in all_keys() if key.section is None and ".NAME." not in key.path} | {"apps"}
    assert leaves == set(OTHER) | {key for key in leaves if key.partition(".")[0] in NEED_RESTART}
    assert {key.partition(".")[0] for key in RESTART} == set(NEED_RESTART)


@pytest.mark.parametrize("key", OTHER)
def test_each_key_that_is_written_or_taken_out_counts_as_if_pald_began_with_it(home: Path, key: str) -> None:
    plain, other = written(home), written(home, key)
    assert plain != other
    same_as_begun(home, plain, other)
    same_as_begun(home, other, plain)


@given(before=st.sets(st.sampled_from(sorted(OTHER))), after=st.sets(st.sampled_from(sorted(OTHER))))
@hypothesis.settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_pald_that_was_reloaded_is_the_one_that_would_have_begun_so(
    home: Path, before: set[str], after: set[str]
) -> None:
    one, other = written(home, *before), written(home, *after)
    assume(not [*broken_rules(one, {}), *broken_rules(other, {})])
    same_as_begun(home, one, other)


@pytest.mark.parametrize("keys", [*([key] for key in RESTART), ["actuator", *RESTART]])
def test_what_a_reload_can_not_take_is_named_and_nothing_of_it_counts(home: Path, keys: list[str]) -> None:
    pald = begun(written(home))
    before = settled(pald)
    with pytest.raises(ConfigError) as refused:
        pald.reloaded(written(home, *keys))
    named = [key.partition(".")[0] for key in RESTART if key in keys]
    assert str(refused.value).startswith(", ".join(named)) and "needs a restart of pald" in str(refused.value)
    assert settled(pald) == before
    pald.close()


FOUR = scores(A=[[1.5] * 4, [1.0] * 4, [1.2] * 4, [1.0] * 4])
BUSY: Mapping[str, Any] = {
    "policy": {"name": "packed"}, "precision": "node", "canary": {"percent": 50}, "cycle": {"interval_s": 2},
    "moves": {"mode": "asked", "first_s": 0, "last_s": 0, "share": 0.5, "partitions": ["gpu"]},
}  # fmt: skip


def lived(house: House, change: Callable[[], None]) -> list[object]:
    """What became of a queue under the new pal.yaml."""
    for number in range(3):
        house.submit("--gres=gpu:4", "-t30", "--requeue", runs=400 + 100 * number)
    house.live(20)
    change()
    seen = len(house.journal)
    jobs = [house.submit(f"--gres=gpu:{1 + number % 3}", "-t60", runs=300 + 50 * number) for number in range(8)]
    house.live(900)
    ran = [(house.job(job).record.state, house.job(job).started, house.job(job).last) for job in jobs]
    asked = [(u.at, u.target, u.asked) for u in house.journal[seen:]]
    return [ran, asked, house.pald.pald.describe(), house.pald.pald.notes]


@pytest.mark.parametrize("key", BUSY)
@pytest.mark.parametrize("begins", [True, False], ids=["written", "taken-out"])
def test_a_queue_fares_after_a_reload_as_after_a_restart(make_house: MakeHouse, key: str, begins: bool) -> None:
    plain: dict[str, Any] = {"actuator": "move" if key == "moves" else "pin"}
    other = {**plain, key: BUSY[key]}
    before, after = (plain, other) if begins else (other, plain)
    told = []
    for reloads in (True, False):
        house = make_house(knowledge=Knowledge(FOUR), **before)
        lock = {"leader": {"lock_file": str(house.home / "pald.lock")}}

        def change(house: House = house, reloads: bool = reloads, lock: dict[str, Any] = lock) -> None:
            house.keys = after
            if reloads:
                house.pald.reload(settings(house.home, {**lock, **after}))
            else:
                house.restart()

        told.append(lived(house, change))
    assert told[0] == told[1]


@pytest.mark.parametrize("section", ["qos", "partitions"])
def test_whose_jobs_may_be_moved_follows_a_reload(make_house: MakeHouse, section: str) -> None:
    """A QOS that is taken out of moves.qos stays movable otherwise (P2)."""
    name = {"qos": "low", "partitions": "gpu"}[section]
    without = {**QUICK_MOVES, "policy": {"patience": "none"}}
    keys = {**without, "moves": {**QUICK_MOVES["moves"], section: [name]}}
    moved = {}
    for reloads in (False, True):
        house = make_house(count=2, knowledge=Knowledge(scores(A=[[1.5] * 4, [1.0] * 4])), **keys)
        full = house.submit("--gres=gpu:4", "-w", "n2", runs=200)
        house.live(10)
        job = house.submit("--gres=gpu:4", "-t1000", "--requeue", runs=20_000)
        house.user_edits(job, qos="low")
        house.live(100)
        assert (house.state(full), list(house.where(job))) == ("RUNNING", ["n1"])
        if reloads:
            lock = {"leader": {"lock_file": str(house.home / "pald.lock")}}
            house.pald.reload(settings(house.home, {**lock, **without}))
        house.live(4000)
        moved[reloads] = list(house.where(job))
    assert moved == {False: ["n2"], True: ["n1"]}


def test_a_qos_that_is_spared_no_more_is_told_of_no_more_and_its_leased_jobs_are_placed(house: House) -> None:
    on, off = (settings(house.home, {"lease": {"spare_preempting": on}}) for on in (True, False))
    lock = msgspec.structs.replace(on.leader, lock_file=str(house.home / "pald.lock"))
    on, off = (msgspec.structs.replace(config, leader=lock) for config in (on, off))
    house.pald.reload(on)
    state = house.pald.pald.state
    state.preempting.names, state.preempting._asked = ("high",), math.inf
    assert any("QOS high are not placed" in note for note in house.pald.pald.notes)
    house.pald.reload(off)
    assert house.pald.pald.notes == ()
    job = house.submit("--gres=gpu:1")
    house.user_edits(job, qos="high")
    house.live(30)
    assert house.pins(job)


def test_a_sign_of_life_that_moves_leaves_none_behind(home: Path) -> None:
    """job_submit.lua would believe it for a minute, and users ask beside it."""
    one, other = ({"cycle": {"alive_file": str(home / name / "alive"), "wake_file": ""}} for name in ("one", "other"))
    pald = begun(settings(home, one))
    report = pald.cycle.run()
    _tell(pald, report, pald.state.clock)
    wait_for(lambda: (home / "one" / "users.sock").exists())
    assert (home / "one" / "alive").read_text()
    pald = pald.reloaded(settings(home, other))
    assert (home / "one" / "alive").read_text() == "" and not (home / "one" / "users.sock").exists()
    _tell(pald, pald.cycle.run(), pald.state.clock)
    wait_for(lambda: (home / "other" / "users.sock").exists())
    assert (home / "other" / "alive").read_text()
    pald.close()


def away(*_: object) -> None:
    raise SlurmUnavailable("no answer in time")


def test_where_sharing_is_impossible_pald_outlives_a_slurmctld_that_is_away(
    make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What release it is is believed for a minute; then nobody tells."""
    house = make_house(release="22.05", sharing={"enabled": True})
    pald = house.pald.pald
    for question in ("capabilities", "setup", "snapshot", "passes"):
        monkeypatch.setattr(house.slurm, question, away)
    report = pald.cycle.run()
    _tell(pald, report, house.pald.clock)
    assert report.end == "unavailable" and any("no two jobs get one GPU" in note for note in pald.notes)


@pytest.mark.parametrize("error", [SlurmUnavailable("x"), StoreError("x"), NotLeader("x")])
def test_nothing_that_is_told_of_a_cycle_ends_pald(
    house: House, monkeypatch: pytest.MonkeyPatch, error: PalError, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise error

    pald = house.pald.pald
    for thing, name in (
        (pald.state.users, "keep_serving"),
        (pald.state.said, "notes"),
        (pald.state.metrics, "observe"),
    ):
        monkeypatch.setattr(thing, name, fails)
    monkeypatch.setattr("pal_slurm.daemon.main.give_sign", fails)
    _tell(pald, pald.cycle.run(), house.pald.clock)
    assert "alive: x" in caplog.text and not pald.faults.total
