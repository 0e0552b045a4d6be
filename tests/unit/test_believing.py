"""What of a job's file can be: times that fit into the job's own, users who speak for themselves."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pal_slurm.errors import BadInput
from pal_slurm.intake.believing import NotYetKnown, believed
from pal_slurm.intake.reader import Listing
from pal_slurm.intake.spool import FileFate, house
from pal_slurm.learning.run import ingest
from pal_slurm.probe.claims import Claims, impossible
from pal_slurm.probe.document import Device, JobPart, StepTimes, Telemetry, Usage
from pal_slurm.store import JobOutcome, OutcomeRepo, Store
from pal_slurm.store.samples import SampleRepo
from tests.unit.spools import NIGHT, document, fleet, here, put, put_night
from tests.unit.test_intake_samples import START, write

T0 = 1_790_000_000
DEVICE = Device("GPU-1", "n1", 1, "a100", "test")
PLACES = {"GPU-1": ("n1", 1), "GPU-2": ("n1", 2)}
RAN = JobOutcome(7, T0 - 9, T0, "A", ("n1",), ((1,),), end=T0 + 3600, app="bert", user="alice")
NOW = float(T0 + 4000)


def steps(begun: float, took: float = 60.0, each: float = 0.5, rank: int = 0, app: str | None = None) -> StepTimes:
    return StepTimes(rank, T0 + begun, T0 + begun + took, int(took / each), int(took / each) * each, each, each, app)


def part(*reports: StepTimes, **changes: object) -> JobPart:
    made = JobPart("7", "n1", 0, "test", "net", (DEVICE,), (), reports, (), T0, T0 + 3600, True)
    return replace(made, **changes)  # type: ignore[arg-type]


# Against the job's own time -----


def test_times_within_the_job_are_believed() -> None:
    found = believed(part(steps(0), steps(60), steps(3540)), "", "", [RAN], PLACES, NOW)
    assert (found.user, found.refused, found.said, len(found.part.steps)) == ("alice", 0, "", 3)


@pytest.mark.parametrize("begun", [-4200, -600, 3700, 100_000])
def test_times_outside_of_the_job_are_left_out_and_counted(begun: float) -> None:
    found = believed(part(steps(begun), steps(0)), "", "", [RAN], PLACES, NOW)
    assert (found.refused, len(found.part.steps)) == (1, 1)
    assert found.said == "1 of 2 step reports left out: it tells of a time in which the job did not run"


def test_all_together_may_not_claim_more_time_than_there_was() -> None:
    found = believed(part(*[steps(0, took=3000) for _ in range(7)]), "", "", [RAN], PLACES, NOW)
    assert found.refused == 6
    assert "more time than the job had" in found.said


def test_each_rank_has_the_whole_time() -> None:
    found = believed(part(*[steps(0, took=3000, rank=rank) for rank in range(7)]), "", "", [RAN], PLACES, NOW)
    assert found.refused == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"seconds": 600.0, "count": 1200}, "within 60 s"),
        ({"count": 1}, "not what each of them took"),
        ({"count": 10**9}, "not what each of them took"),
        ({"seconds": 0.0}, "no time"),
        ({"count": 0}, "no time"),
        ({"seconds": -1.0}, "no time"),
        ({"fastest": 0.0}, "no time"),
        ({"fastest": float("nan")}, "no time"),
        ({"ended_at": float(T0)}, "within 0 s"),
    ],
)
def test_reports_that_contradict_themselves_can_not_be(changes: dict[str, float], why: str) -> None:
    assert why in impossible(replace(steps(0), **changes))  # type: ignore[arg-type]
    assert impossible(steps(0)) == ""


def test_a_requeued_job_had_the_time_of_all_its_starts() -> None:
    again = replace(RAN, start=T0 + 7200, end=None)
    late = part(steps(0), steps(7300), ended_at=float(T0 + 7400))
    assert believed(late, "", "", [RAN, again], PLACES, float(T0 + 8000)).refused == 0


def test_a_number_that_came_round_again_is_another_job() -> None:
    old = replace(RAN, submit=1, start=2, end=None, user="bob")
    assert believed(part(steps(0)), "", "", [old, RAN], PLACES, NOW).user == "alice"


# Whose it is -----


def test_slurms_record_says_whose_it_is_and_which_application() -> None:
    found = believed(part(steps(0, app="resnet"), app=None), "", "root", [RAN], PLACES, NOW)
    assert (found.user, found.part.app, found.part.steps[0].app) == ("alice", "bert", None)


def test_where_slurm_knows_nothing_the_kernel_says_whose_it_is() -> None:
    assert believed(part(steps(0)), "", "carol", [], PLACES, NOW).user == "carol"
    assert believed(part(steps(0)), "", "carol", [replace(RAN, user="")], PLACES, NOW).user == "carol"


def test_a_user_speaks_for_his_own_jobs_and_their_gpus_only() -> None:
    assert believed(part(steps(0)), "alice", "root", [RAN], PLACES, NOW).user == "alice"
    with pytest.raises(BadInput, match="another user's"):
        believed(part(steps(0)), "mallory", "", [RAN], PLACES, NOW)
    with pytest.raises(NotYetKnown):
        believed(part(steps(0)), "mallory", "", [], PLACES, NOW)
    other = Device("GPU-2", "n1", 1, "a100", "test")
    with pytest.raises(BadInput, match="did not have the GPU GPU-2"):
        believed(part(steps(0), devices=(other,)), "alice", "", [RAN], PLACES, NOW)
    unseen = Device("GPU-9", "n1", 1, "a100", "test")
    with pytest.raises(BadInput, match="did not have the GPU GPU-9"):
        believed(part(steps(0), devices=(unseen,)), "alice", "", [RAN], PLACES, NOW)


def test_what_a_user_says_that_his_gpus_did_has_to_lie_within_his_job_too() -> None:
    usage = tuple(Usage("GPU-1", T0 + at, T0 + at + 60, Telemetry(6, util_compute=0.5)) for at in (-900.0, 0.0))
    assert len(believed(part(usage=usage), "alice", "", [RAN], PLACES, NOW).part.usage) == 1


def test_a_node_that_the_job_was_not_on_tells_nothing_of_it() -> None:
    with pytest.raises(BadInput, match="did not run on n2"):
        believed(part(steps(0), node="n2"), "", "", [RAN], PLACES, NOW)


# On the node -----


def test_a_node_believes_no_report_of_before_the_job_of_the_future_or_twice() -> None:
    claims, now = Claims(since=T0), T0 + 100.0
    assert claims.believes(steps(0), 1, None, now)
    assert claims.believes(steps(0), 2, None, now)  # another process
    assert not claims.believes(steps(30), 1, None, now)
    assert not claims.believes(steps(-600), 3, None, now)
    assert claims.believes(steps(-600), 3, T0 - 601.0, now)  # the kernel says that its job step is older
    assert not claims.believes(steps(90), 4, None, now)
    assert claims.told() == "3 step reports of the job left out: it overlaps with the one before"
    assert claims.told() is None


# Through the spool -----


@pytest.mark.parametrize(
    ("mode", "others"), [(0o755, False), (0o750, False), (0o3730, True), (0o2730, True), (0o1777, True)]
)
def test_where_others_may_write_it_matters_whose_a_file_is(mode: int, others: bool) -> None:
    assert house(Listing(7, mode, [])) == (frozenset({0, 7, os.geteuid()}) if others else None)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_in_an_open_spool_a_users_file_counts_for_himself_alone(store: Store, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    put_night(spool, fleet(1), NIGHT)
    ingest(store, here(spool), spool, NIGHT + 10_000)
    spool.chmod(0o1777)
    ran = JobOutcome(7, int(START), int(START), "A", ("n1",), ((0, 1),), app="net", user="nobody")
    OutcomeRepo(store, "c").record([ran, replace(ran, job=8, user="alice")])
    for job, slots in (("7", [0]), ("8", [0]), ("9", [0])):
        os.chown(write(spool, job, "n1", slots, START, 0.25), 65534, 65534)
    os.chown(put(spool, document("n1", fleet(1), NIGHT + 86_400)), 65534, 65534)
    done = ingest(store, here(spool), spool, START + 3600, "c")
    assert {told.name.partition("-n1")[0]: told.fate for told in done.files if told.name.startswith("job")} == {
        "job-7": FileFate.TAKEN,
        "job-8": FileFate.SET_ASIDE,
        "job-9": FileFate.SET_ASIDE,
    }
    assert done.runs == 0
    assert {s.user for s in SampleRepo(store).of_job("c", "7")} == {"nobody"}
