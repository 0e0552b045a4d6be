"""What pald writes down of the present: whole, small, and read by nobody who does not know it."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace as replace_struct

from pal_slurm.daemon.beside.showing import Showing, ShownBeside
from pal_slurm.daemon.outcome import CycleReport
from pal_slurm.daemon.round import Round
from pal_slurm.errors import BadInput
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Cluster,
    Decision,
    Hint,
    Job,
    Knowledge,
    Reason,
    Waits,
    homogeneous,
    neutral_scores,
)
from pal_slurm.report.present import NodeNow, Present, from_bytes, own, present_of, to_bytes
from pal_slurm.slurm.port import Passes
from tests.builders import NOW, leased, running, snapshot, waiting
from tests.simpald import House

APPS = Apps({"resnet": App("resnet", "B")})
CLUSTER = homogeneous(2, 4)


def test_it_holds_who_runs_where_and_who_waits_why() -> None:
    runs = running(1, {"n2": (0, 3)}, end=NOW + 60, user="alice", hint=Hint("resnet"), start=NOW - 9)
    first, last = leased(2, 2, until=NOW + 30, user="bob"), waiting(3, 1, reason="Priority", user="carol")
    decided = [
        Decision(3, None, Action.LEAVE, Reason.FOREIGN, rank=0),
        Decision(2, None, Action.WAIT, Reason.NO_ROOM, rank=5, until=NOW + 99.0),
    ]
    seen = snapshot(runs, first, last, waiting(4, gpu_job=False), cluster=CLUSTER)
    present = present_of(seen, decided, APPS, cluster="c", actuator="pin", policy="pal")
    assert from_bytes(to_bytes(present)) == present
    [job] = present.running
    assert (job.job, job.user, job.app, job.cls, job.nodes, job.gpus) == (1, "alice", "resnet", "B", ("n2",), ((0, 3),))
    assert [(w.job, w.user, w.reason, w.lease, w.until, w.slurm) for w in present.waiting] == [
        (3, "carol", "foreign", None, None, "Priority"),
        (2, "bob", "no-room", NOW + 30, NOW + 99.0, ""),
    ]
    assert present.nodes == (NodeNow("n1", True, "gpu", 15, 15), NodeNow("n2", True, "gpu", 15, 15))


OTHER = b'{"version": 2, "cluster": "c", "taken": 1, "actuator": "", "policy": ""}'


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 2}', b"\xff\xfe", OTHER])
def test_what_is_of_another_release_or_torn_is_no_present(data: bytes) -> None:
    with pytest.raises(BadInput, match="what pald last saw"):
        from_bytes(data)


def test_a_queue_of_50000_jobs_is_five_megabytes() -> None:
    jobs = [leased(n, 2, user=f"user{n % 300}", hint=Hint("resnet"), reason="BeginTime") for n in range(1, 50_001)]
    present = present_of(snapshot(*jobs, cluster=CLUSTER), (), APPS, cluster="c", actuator="pin", policy="pal")
    size = len(to_bytes(present))
    print(f"50,000 waiting jobs: {size / 1e6:.1f} MB")
    assert size < 6_000_000


@dataclass
class Shown:
    home: Path
    showing: Showing = field(init=False)

    def __post_init__(self) -> None:
        self.showing = Showing()

    def cycle(self, seen: Round | None, report: CycleReport, now: float) -> bool:
        beside = ShownBeside("c", "pin", "pal", 5.0, ("a note",), ("nodes",), self.home / "now.json")
        begun = self.showing.begin_when_due(seen, report, beside, now)
        self.showing.beside.wait()
        return begun


def a_round(*jobs: Job, cluster: Cluster = CLUSTER) -> Round:
    made = Round(CycleReport(), 1, 0.0, Passes(0, 0, 0, 0, 0), snapshot(*(jobs or (leased(7),)), cluster=cluster))
    made.knowledge = Knowledge(neutral_scores(CLUSTER), APPS)
    return made


def test_pald_writes_it_for_its_group_and_not_in_every_cycle(tmp_path: Path) -> None:
    shown, report = Shown(tmp_path), CycleReport(leader=True, ended=time.time())
    assert shown.cycle(a_round(), report, 100.0)
    file = tmp_path / "now.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    present = from_bytes(file.read_bytes())
    assert (present.notes, present.private) == (("a note",), ("nodes",))
    assert not shown.cycle(a_round(), report, 100.5)
    assert shown.cycle(a_round(), report, 110.0)
    assert [path.name for path in tmp_path.iterdir()] == ["now.json"]


def test_when_waiting_jobs_will_probably_start_is_worked_out_twice_a_minute(tmp_path: Path) -> None:
    runs = running(1, {"n1": (0, 1, 2, 3), "n2": (0, 1, 2, 3)}, end=NOW + 900, user="alice", start=NOW - 100)
    jobs = (runs, leased(7, 4, user="alice"), leased(8, 4, user="bob"), leased(9, 1, why=Waits.HELD, user="bob"))
    shown, file, full = Shown(tmp_path), tmp_path / "now.json", np.zeros((2, 4), dtype=np.bool_)
    made = a_round(*jobs, cluster=replace(CLUSTER, gpu_free=full))
    made.run_times.ended("alice", "", "", None, 400.0)

    def looks(now: float) -> Present:
        assert shown.cycle(made, CycleReport(leader=True), now)
        return from_bytes(file.read_bytes())

    first = looks(100.0)
    assert first.forecasts.keys() == {7, 8} and first.forecast_at == NOW
    for start in first.forecasts.values():
        assert NOW < start.early <= start.expected <= NOW + 910 and start.expected <= start.late
    # a user to whom other users' jobs are private is told of none of theirs
    mine = own(replace_struct(first, private=("jobs",)), lambda user: user == "alice")
    assert mine.forecasts.keys() == {7}
    made.snapshot = replace(made.snapshot, taken=NOW + 10, pending=made.snapshot.pending[1:])
    assert set(looks(110.0).forecasts) == {8} and looks(120.0).forecast_at == NOW
    assert looks(170.0).forecast_at == NOW + 10


def test_a_forecast_that_fails_costs_nobody_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pal_slurm.daemon.beside.showing.start_forecasts", fails)
    shown = Shown(tmp_path)
    assert shown.cycle(a_round(), CycleReport(leader=True), 100.0)
    present = from_bytes((tmp_path / "now.json").read_bytes())
    assert len(present.waiting) == 1 and not present.forecasts


def test_a_cycle_that_saw_nothing_leaves_what_was_seen_and_says_so(tmp_path: Path) -> None:
    shown = Shown(tmp_path)
    shown.cycle(a_round(), CycleReport(leader=True), 100.0)
    shown.cycle(None, CycleReport(end="unavailable", note="slurmctld gives no answer"), 200.0)
    present = from_bytes((tmp_path / "now.json").read_bytes())
    assert (present.end, present.sentence, len(present.waiting)) == ("unavailable", "slurmctld gives no answer", 1)


def test_a_place_that_can_not_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = Shown(tmp_path / "nowhere")
    for cycle in range(3):
        shown.cycle(a_round(), CycleReport(), 100.0 * cycle + 1)
    assert [record.message.startswith("page.view_file: can't write ") for record in caplog.records] == [True]
    assert shown.showing.present is not None


def test_nobody_is_led_to_write_elsewhere_by_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "now.json.new").symlink_to(target)
    Shown(tmp_path).cycle(a_round(), CycleReport(), 1.0)
    assert target.read_text() == "mine"
    assert not (tmp_path / "now.json").is_symlink()


def test_a_forecast_goes_by_how_long_jobs_were_seen_to_run(make_house: Callable[..., House]) -> None:
    """Their limit is two hours, and each ends after ten minutes: the first that waits starts when this one ends."""
    house = make_house(count=1)
    for _ in range(12):
        house.submit("--gres=gpu:4", "-t", "120", runs=600.0)
    house.live(8 * 605)
    waits = [job for job in range(1, 13) if house.state(job) == "PENDING"]
    pald = house.pald.pald
    beside = ShownBeside("c", "pin", "pal", 5.0, (), ())
    assert pald.state.showing.begin_when_due(pald.cycle.seen, CycleReport(leader=True), beside, 1.0)
    pald.state.showing.beside.wait()
    present, started = pald.state.showing.present, {}
    house.live(6 * 605)
    assert present is not None and len(waits) >= 3 and set(waits) == present.forecasts.keys()
    for number, start in present.forecasts.items():
        started[number] = house.job(number).started
        assert start.early - 30 <= started[number] <= start.late + 30
        assert start.expected == pytest.approx(started[number], abs=0.2 * (started[number] - present.taken) + 60)
        lease = next(job.lease for job in present.waiting if job.job == number)
        assert lease is not None and (number == waits[0] or started[number] > lease + 60)
