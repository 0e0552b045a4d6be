"""Schema 0004 knew single intents; each becomes an operation of one step, and nothing of it is lost."""

from __future__ import annotations

from typing import Any

import pytest
from alembic import op
from sqlalchemy import column, insert, inspect, select, table, text

from pal_slurm.errors import StoreError
from pal_slurm.model import (
    Action,
    Decision,
    Edit,
    Intent,
    JobRef,
    LeaseAgain,
    OperationKind,
    Outcome,
    Pin,
    Plain,
    Reason,
    Renew,
    Request,
    Unpin,
)
from pal_slurm.store import Leadership, Ledger, Store, engine, open_store
from pal_slurm.store.engine import connect
from pal_slurm.store.jsontext import dump
from pal_slurm.store.migrate import upgrade, upgrade_url
from pal_slurm.store.tables import HEAD

REQUEST = Request(per_node="gres/gpu:2", features="a&b")
DECISION = Decision(7, None, Action.START, Reason.BEST_SPAN, None, 0.2, 0.25, 3)
ROW: dict[str, Any] = {
    "cluster": "c", "job": 7, "submit": 100, "task": None, "kind": "plain", "nodes": "[]", "slots": None, "until": None,
    "partition": None, "original": None, "fence": 4, "written_at": 200.0, "outcome": "done", "said": "", "closed": True,
    "outcome_at": 201.0, "step_time": None, "slurm_step_time": None, "reason": None, "decision": None,
    "passes_main": 5, "passes_backfill": 6,
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    ROW | {
        "kind": "pin", "task": 3, "nodes": '["n1","n2"]', "slots": "[0,3]", "partition": "gpu",
        "original": dump(REQUEST), "step_time": 0.2, "slurm_step_time": 0.25, "reason": "best-span",
        "decision": dump(DECISION), "closed": False,
    },
    ROW | {"kind": "plain", "outcome": "refused", "said": "'; DROP TABLE steps; --"},
    ROW | {"kind": "renew", "until": 900},
    ROW | {"kind": "lease", "until": 950, "outcome": "unknown", "closed": False},
    ROW | {"kind": "unpin", "until": 990, "original": dump(REQUEST)},
    ROW | {"kind": "unpin", "outcome": None, "outcome_at": None, "closed": False},
    ROW | {"kind": "renew", "until": 800, "cluster": "other", "fence": 9},
]  # fmt: skip
EDITS: list[Edit] = [
    Pin(7, 3, ("n1", "n2"), (0, 3), "gpu", REQUEST),
    Plain(7),
    Renew(7, until=900),
    LeaseAgain(7, until=950),
    Unpin(7, None, 990, REQUEST),
    Unpin(7),
]
KINDS = [
    OperationKind.START, OperationKind.START, OperationKind.RENEW, OperationKind.LEASE, OperationKind.GIVE_BACK,
    OperationKind.GIVE_BACK,
]  # fmt: skip


def of_0004(url: str, rows: list[dict[str, Any]] = ROWS) -> None:
    older, shown, _ = connect(url, create=True)
    upgrade(older, shown, "0004")
    intents = table("intents", *map(column, ROW))
    with older.begin() as db:
        for row in rows:
            db.execute(insert(intents).values(row))
    older.dispose()


def test_rows_of_every_kind_become_operations_of_one_step(empty_url: str) -> None:
    of_0004(empty_url)
    upgrade_url(empty_url)
    store = open_store(empty_url)
    found = Ledger(store, "c").of_job(7)
    assert [i.edit for i in found] == EDITS
    assert [i.kind for i in found] == KINDS
    assert [(i.plan, i.step) for i in found] == [((edit.kind,), 0) for edit in EDITS]
    assert [i.outcome for i in found] == [
        Outcome.DONE, Outcome.REFUSED, Outcome.DONE, Outcome.UNKNOWN, Outcome.DONE, None,
    ]  # fmt: skip
    assert {(i.submit, i.fence, i.written_at, i.passes_main, i.passes_backfill) for i in found} == {
        (100, 4, 200.0, 5, 6)
    }
    assert [i.outcome_at for i in found] == [201.0] * 5 + [None]
    assert (found[0].decision, found[1].decision, found[1].said) == (DECISION, None, "'; DROP TABLE steps; --")
    store.close()


def test_what_was_watched_open_counted_and_led_is_the_same_afterwards(empty_url: str) -> None:
    of_0004(empty_url)
    upgrade_url(empty_url)
    store = open_store(empty_url)
    ledger = Ledger(store, "c")
    assert [i.edit for i in ledger.watched()] == [EDITS[0], EDITS[3], EDITS[5]]
    assert [i.edit for i in ledger.open()] == [EDITS[3], EDITS[5]]
    assert ledger.undos([JobRef(7, 100)]) == {JobRef(7, 100): 2}
    assert ledger.lease_ends([JobRef(7, 100)]) == {JobRef(7, 100): 990}
    assert ledger.leased_again([JobRef(7, 100)]) == {JobRef(7, 100): 1}
    assert ledger.given_back(0.0) == {JobRef(7, 100): 990}
    assert ledger.wrote_begin([(JobRef(7, 100), 900), (JobRef(7, 100), 800)]) == {(JobRef(7, 100), 900)}
    assert [i.edit for i in Ledger(store, "other").of_job(7)] == [Renew(7, until=800)]
    assert Leadership(store, "other").acquire("one", 0.0, 30.0).fence == 10
    [fresh] = ledger.write([Intent(0, 100, Plain(8), 4, 300.0)])
    ids = [i.id for i in ledger.of_job(7)]
    assert fresh.id > max(ids) and fresh.operation > max(i.operation for i in ledger.of_job(7))
    store.close()


def test_a_migration_that_was_cut_short_is_run_again_and_copies_nothing_twice(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite and PostgreSQL take all of it back; in MariaDB what was made stays."""
    of_0004(empty_url)

    def killed(name: str) -> None:
        raise RuntimeError(name)

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="intents"):
        patched.setattr(op, "drop_table", killed)
        upgrade_url(empty_url)
    assert upgrade_url(empty_url) == ("0004", HEAD)
    store = open_store(empty_url)
    assert [i.edit for i in Ledger(store, "c").of_job(7)] == EDITS
    store.close()


def test_an_empty_ledger_is_migrated_too(empty_url: str) -> None:
    of_0004(empty_url, [])
    upgrade_url(empty_url)
    store = open_store(empty_url)
    [first] = Ledger(store, "c").write([Intent(0, 100, Plain(8), 1, 300.0)])
    assert first.id > 0
    with store.reading() as db:
        assert not inspect(db).has_table("intents")
    store.close()


def test_an_older_pald_that_meets_the_new_schema_says_so_and_stops(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HEAD", "0004")
    with pytest.raises(StoreError, match=f"has schema {HEAD}, and this pal-slurm knows 0004 only"):
        open_store(store_url, create=True)


def test_steps_go_with_their_operation(store: Store) -> None:
    ledger = Ledger(store, "c")
    ledger.write([Intent(0, 100, Plain(8), 1, 300.0), Intent(0, 100, Plain(9), 1, 300.0)])
    with store.writing() as db:
        db.execute(text("DELETE FROM operations WHERE job = 8"))
        assert db.execute(select(text("count(*)")).select_from(text("steps"))).scalar_one() == 1
