"""No job ends a cycle, whatever it says: what Slurm accepts fits the tables or is clipped; later jobs are placed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from pal_slurm.sim.slurm.jobs import SimJob
from pal_slurm.slurm.nodeset import fold
from pal_slurm.slurm.records import JobRecord
from tests.databases import each
from tests.simpald import START, House

Make = Callable[..., House]
NO_VAL, INFINITE = 2**32 - 2, 2**32 - 1
MANY = fold(f"gpu-node-with-a-long-name-{n}" for n in range(1, 5001))
MEANT = [0, 1, -1, 2**16, 2**31 - 1, 2**31, 2**32, NO_VAL, INFINITE, 57_600_000, 2**62, 2**63 - 1]
NUMBERS = st.one_of(st.none(), st.sampled_from(MEANT), st.integers(-(2**31), 2**32))
# Nanoseconds are Slurm's, not ours: 253402300800 is the first second of the year 10000
TIMES = st.sampled_from([None, 0, 1, int(START), int(START) + 30, NO_VAL, 253_402_300_800, 2**40, 2**62])
TEXTS = st.one_of(
    st.sampled_from(
        ["", "\0", "a\0b", "\ud800", "x\udcffy", "\U0001f600" * 500, "a" * 70_000, "(null)", "'; --", "%n"]
    ),
    st.text(st.characters(), max_size=300),
)
HOSTS = st.one_of(st.sampled_from(["", MANY, "n1", "n[1-2]", "n[1-", "n[0-99999999]", "nowhere"]), TEXTS)
TRES = st.sampled_from(
    ["", "gres/gpu:1", "gres/gpu:4", "gres/gpu:0", "gres/gpu:4294967295", "gres/gpu:g1=1", "gres/gpu"]
)
WORDS = {
    **dict.fromkeys(("account", "qos", "reason", "features", "reservation", "dependency", "user"), TEXTS),
    **dict.fromkeys(("name", "command", "prefer", "partition"), TEXTS),
    **dict.fromkeys(("required_nodes", "excluded_nodes", "planned_nodes"), HOSTS),
    **dict.fromkeys(("per_node", "per_job", "per_task", "per_socket", "cpus_per_gpu", "mem_per_gpu"), TRES),
    **dict.fromkeys(("eligible", "start", "end", "deadline"), TIMES),
    "submit": TIMES.filter(lambda at: at is not None),
    "comment": st.one_of(st.none(), TEXTS, TEXTS.map(lambda text: f"app:{text}"), st.just("pal:move=USR1@999999999")),
    "admin_comment": st.one_of(TEXTS, st.just("pal1;end=99999999999999999999")),
    "array_tasks": st.sampled_from(["", "0-9", "4000000", "0-4000000:400000", "1,2,...", "[0-9%4]"]),
    "nodes": HOSTS,
    "gres_detail": st.sampled_from([[], ["gpu:1(IDX:0)"], ["gpu:4(IDX:0-3)"] * 2, ["gpu:9(IDX:0-99999999)"]]),
}
COUNTS = tuple(
    name
    for name in JobRecord.__struct_fields__
    if name not in WORDS
    and name not in ("id", "state", "requeue", "restarts", "exclusive", "by_user", "oversubscribes")
)
RECORDS = st.fixed_dictionaries(
    {}, optional=WORDS | dict.fromkeys(COUNTS, NUMBERS) | {"restarts": st.sampled_from([0, 1, 65535, NO_VAL])}
)
IDS = st.sampled_from([5, 2**31 - 1, 2**31, 0x03FFFFFF, NO_VAL])


def at(make_house: Make, database: str, request: pytest.FixtureRequest, **keys: Any) -> House:
    if database != "sqlite":
        keys["database"] = {"url": request.getfixturevalue("servers")[database].require().fresh()}
    return make_house(**keys)


def strange(house: House, facts: dict[str, Any], *, runs: bool, number: int) -> None:
    """A record that no sbatch of ours would make."""
    house.controller.next_job = number
    job = house.job(house.submit("--gres=gpu:1", runs=40.0))
    for name, value in facts.items():
        setattr(job.record, name, value)
    if runs:  # wherever it says
        del house.controller.pending[number]
        here = {"state": "RUNNING", "nodes": "n4", "gres_detail": ["gpu:1(IDX:3)"], "start": int(house.now)}
        record = msgspec.structs.replace(job.record, **here | facts)
        house.controller.running[number] = SimJob(record, lambda job: 40.0)
    job.changed()
    house.controller.next_job = 100_000


@pytest.mark.parametrize("database", each())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(facts=RECORDS, runs=st.booleans(), number=IDS)
@example(facts={"time_limit_min": 57_600_000}, runs=True, number=5)
@example(facts={"time_limit_min": INFINITE, "submit": 2**40, "start": 2**40}, runs=True, number=NO_VAL)
@example(
    facts={"nodes": MANY, "gres_detail": ["gpu:8(IDX:0-7)"] * 5000, "start": int(START), "user": "u" * 99},
    runs=True,
    number=5,
)
@example(facts={"num_nodes": -1, "per_task": "gres/gpu:4294967295", "required_nodes": "a\0b"}, runs=False, number=5)
@example(facts={"required_nodes": "?\0", "num_nodes": 189_198, "account": "x\udcffy"}, runs=False, number=2**31 - 1)
@example(facts={"user": "a\0\ud800", "comment": "app:\ud800", "name": "\ud800\0"}, runs=False, number=5)
def test_later_jobs_are_placed_whatever_a_job_says(
    make_house: Make, database: str, request: pytest.FixtureRequest, facts: dict[str, Any], runs: bool, number: int
) -> None:
    house = at(make_house, database, request)
    first = house.submit("--gres=gpu:2")
    house.live(5)
    strange(house, facts, runs=runs, number=number)
    house.live(20)
    then = house.submit("--gres=gpu:1")
    house.live(60)
    ends, faults = house.pald.effort.ends, house.pald.pald.faults
    house.kill()
    assert set(ends) <= {"ok"} and not faults.total, (ends, faults.last)
    assert len(house.pins(first)) == 1 and len(house.pins(then)) == 1


@pytest.mark.parametrize("table", ["operations", "decisions", "job_outcomes"])
def test_a_job_whose_rows_the_database_refuses_is_named_once_and_the_others_are_placed(
    house: House, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its intent on disk no edit of it is sent; Slurm starts it when its lease ends."""
    refuse = f"CREATE TRIGGER refuses BEFORE INSERT ON {table} WHEN NEW.job = 2 BEGIN SELECT RAISE(ABORT, 'no'); END"
    with house.pald.pald.store.writing() as db:
        db.execute(text(refuse))
    jobs = [house.submit("--gres=gpu:1", runs=1e4) for _ in range(3)]
    house.live(60)
    then = house.submit("--gres=gpu:1")
    house.live(30)
    assert set(house.pald.effort.ends) == {"ok"}
    assert [house.state(job) for job in (*jobs, then)] == ["RUNNING"] * 4
    assert [bool(house.pins(job)) for job in (*jobs, then)] == [True, table != "operations", True, True]
    said = [record.message for record in caplog.records if "can't be written down" in record.message]
    assert said and all("job 2 " in line for line in said) and len(said) == len({line.split(":")[1] for line in said})
    assert house.pald.pald.faults.total >= len(said)
