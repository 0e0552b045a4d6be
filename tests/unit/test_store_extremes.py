"""The store's door: what Slurm accepts fits or is clipped, one row that can't be written costs that row alone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from sqlalchemy import text

from pal_slurm.errors import StoreError, StoreRefused
from pal_slurm.model import (
    Action,
    Decision,
    Intent,
    Move,
    NotBegun,
    OperationKind,
    Pin,
    Placement,
    Plain,
    Reason,
    Request,
)
from pal_slurm.store import DecisionRepo, JobOutcome, Ledger, MemoryRepo, OutcomeRepo, Said, Store, Why, open_store
from pal_slurm.store.fields import GREATEST, MOST, told
from pal_slurm.store.samples import JobSample, SampleRepo

NODES = tuple(f"gpu-node-with-a-long-name-{n}" for n in range(5000))
WIDE = Placement(NODES, (tuple(range(8)),) * 5000, exact=True, partition="gpu")
DECISION = Decision(7, None, Action.START, Reason.BEST_SPAN, WIDE, 0.2, 0.25, 3, WIDE)
WHY = Why(DECISION, 100, 200.0, "pin", "bert", True, "A", 40_000, 40_000, 0)
GOT = JobOutcome(7, 100, 300, "A", NODES, (tuple(range(8)),) * 5000)
TOO_MUCH = "x" * (MOST + 1)


def test_what_a_job_on_five_thousand_nodes_leaves_behind_is_read_back_whole(store: Store) -> None:
    ledger, outcomes, decisions = Ledger(store, "c"), OutcomeRepo(store, "c"), DecisionRepo(store, "c")
    pin = Pin(7, None, NODES, tuple(range(8)), "gpu", Request(per_node="x" * 70_000))
    move = Move(8, 100, "u", 0, WIDE, Request(), 200.0, target=WIDE)
    ledger.write([Intent(0, 100, pin, 1, 200.0, decision=DECISION), Intent(0, 100, Plain(8), 1, 200.0, move=move)])
    assert [i.edit for i in ledger.of_job(7)] == [pin] and ledger.of_job(7)[0].decision == DECISION
    ledger.refuse([NotBegun(9, 100, OperationKind.MOVE, "why not", 1.0, DECISION)])
    assert ledger.refused(9)[0].decision == DECISION
    outcomes.record([GOT])
    assert outcomes.of_job(7) == [GOT]
    decisions.record([WHY])
    assert decisions.of_job(7) == [WHY]
    MemoryRepo(store, "c").keep({"k": "x" * 200_000}, 1, 1.0)
    Said(store, "c").say(["n" * 100_000], 1.0)
    assert len(Said(store, "c").notes()[0]) == 100_000


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"limit_s": 57_600_000 * 60}, 57_600_000 * 60),
        ({"limit_s": 2**80}, GREATEST),
        ({"limit_s": -(2**80)}, -GREATEST),
        ({"start": 2**70}, GREATEST),
        ({"step_time": float("inf")}, sys.float_info.max),
        ({"step_time": float("nan")}, None),
        ({"user": "u" * 70}, ""),  # no name rather than another's
        ({"user": "a\0b"}, "a\ufffdb"),
        ({"app": "a\ud800" * 40}, "a?" * 32),
        ({"nodes": ("n\ud800", "n\0")}, ("n?", "n\0")),
        ({"cls": "\U0001f600" * 40}, "\U0001f600" * 32),
    ],
)
def test_a_value_that_does_not_fit_is_clipped_and_the_log_says_so(
    store: Store, caplog: pytest.LogCaptureFixture, given: dict[str, object], kept: object
) -> None:
    told.clear()
    [(field, value)] = given.items()
    outcomes = OutcomeRepo(store, "c")
    for _ in range(2):  # the second time its row is found again
        outcomes.record([replace(JobOutcome(7, 100, 300, "A", ("n1",), ((0,),)), **given)])  # type: ignore[arg-type]
    [found] = outcomes.of_job(7)
    assert getattr(found, field) == kept
    assert (
        value == kept
        or field == "nodes"
        or kept == ""
        or f"job_outcomes.{field.replace('cls', 'class')}" in caplog.text
    )


def test_a_job_of_a_number_that_no_database_holds_is_none(store: Store) -> None:
    assert Ledger(store, "c").of_job(2**70) == [] and OutcomeRepo(store, "c").of_job(-(2**70)) == []
    assert DecisionRepo(store, "c").of_jobs([2**64, 7]) == []


def test_steps_of_a_sample_are_its_users_word_and_fit(store: Store) -> None:
    repo = SampleRepo(store)
    assert repo.add([JobSample("d", "c", "7" * 99, "app", "n" * 999, ("G",), 1.0, 2.0, 2**40, 1e400)]) == 1


@pytest.mark.parametrize("bad", ["too large", "of a type that is none"])
def test_of_many_rows_one_that_can_not_be_written_is_told_and_the_others_are_written(
    store: Store, caplog: pytest.LogCaptureFixture, bad: str
) -> None:
    """Once per job and kind of row, each time counted."""
    names: list[str] = []
    store.refused = lambda name, error: names.append(name)
    what: object = TOO_MUCH if bad == "too large" else object()
    ledger, outcomes, decisions = Ledger(store, "c"), OutcomeRepo(store, "c"), DecisionRepo(store, "c")
    pins = [Pin(job, None, ("n1",), (0,), "gpu", Request(per_node="x")) for job in (1, 2, 3)]
    pins[1] = replace(pins[1], original=replace(pins[1].original or Request(), per_node=what))  # type: ignore[arg-type]
    written = ledger.write([Intent(0, 100, pin, 1, 200.0) for pin in pins])
    assert [bool(intent.id) for intent in written] == [True, False, True]
    assert sorted(i.edit.job for i in ledger.watched()) == [1, 3]
    got = [replace(GOT, job=job, nodes=("n1",), gpus=((0,),)) for job in (1, 2, 3)]
    got[1] = replace(got[1], nodes=(what,))  # type: ignore[arg-type]
    outcomes.record(got)
    assert [o.job for o in outcomes.running()] == [1, 3]
    plain = [Decision(job, None, Action.PLAIN, Reason.REFUSED) for job in (1, 2, 3)]
    whys = [replace(WHY, decision=decision) for decision in plain]
    whys[1] = replace(whys[1], cls=what)  # type: ignore[arg-type]
    decisions.record(whys)
    assert {why.decision.job for why in decisions.newest()} == {1, 3}
    assert decisions.record(whys) == 0  # it is not tried again in each cycle
    ledger.refuse([NotBegun(n, 1, OperationKind.MOVE, "", 1.0) for n in (4, 5)])
    assert names == ["the pin of job 2", "what job 2 got", "the decision about job 2"]


def test_our_own_error_in_a_transaction_stays_what_it_is(store: Store) -> None:
    """And is no reason to restore a backup."""
    for transaction in (store.reading, store.writing):
        for ours in (TypeError, ValueError, KeyError):
            with pytest.raises(ours), transaction():
                raise ours("a fault of ours")
    with pytest.raises(StoreRefused, match="can't be written"):
        MemoryRepo(store, "c").keep(TOO_MUCH, 1, 1.0)


def test_what_another_program_wrote_into_a_row_is_said(store: Store) -> None:
    ledger = Ledger(store, "c")
    ledger.write([Intent(0, 100, Plain(7), 1, 200.0)])
    for change in ("kind = 'nonsense'", "nodes = '[1'"):
        with store.writing() as db:
            db.execute(text(f"UPDATE steps SET {change}"))
        with pytest.raises(StoreError, match="a row of the database"):
            ledger.watched()


def test_palds_that_start_for_the_first_time_at_the_same_moment_all_get_the_database(empty_url: str) -> None:
    wait = "import sys, time; from pal_slurm.store import open_store; import pal_slurm.store.migrate; "
    run = f"{wait}print('ready', flush=True); sys.stdin.read(1); open_store({empty_url!r}, create=True).close()"
    pipe = subprocess.PIPE
    many = [
        subprocess.Popen([sys.executable, "-c", run], stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(4)
    ]
    for one in many:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in many:
        assert one.stdin is not None
        one.stdin.write("x")
        one.stdin.flush()
    said = [one.communicate(timeout=120)[1] for one in many]
    assert [one.returncode for one in many] == [0] * 4, said
    open_store(empty_url).close()
