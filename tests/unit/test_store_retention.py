"""What is forgotten, when, and what never is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from pal_slurm.daemon.beside.forgetting import EVERY_S, FIRST_S, Forgetter
from pal_slurm.learning.from_nights import rescore
from pal_slurm.model import EditKind, Intent, Outcome, Pin, Renew
from pal_slurm.store import DecisionRepo, JobOutcome, Ledger, OutcomeRepo, PairRepo, Store, UserPair
from pal_slurm.store import retention as module
from pal_slurm.store.health import row_counts
from pal_slurm.store.learned import LearnedRepo, Offset
from pal_slurm.store.retention import Keep, count, rules, sweep
from pal_slurm.store.samples import JobSample, SampleRepo
from pal_slurm.store.tables import nights, runs
from pal_slurm.store.votes import UserApp, VoteRepo
from tests.unit.spools import DAY, NIGHT, NOW, fleet, put_night, scores, take
from tests.unit.test_store_memory import WHY

KEEP = Keep(90 * DAY, 30 * DAY)


def forget(store: Store, now: float = NOW, keep: Keep = KEEP, cluster: str | None = None) -> dict[str, int]:
    return {rule.what: sweep(store, rule, pause=lambda _: None) for rule in rules(keep, now, cluster)}


def closed(kind: EditKind, at: float, job: int = 1) -> Intent:
    edit = Renew(job, until=9) if kind is EditKind.RENEW else Pin(job)
    return Intent(0, 100, edit, 1, at, outcome=Outcome.DONE, closed=True)


def filled(store: Store, old: float) -> None:
    """Two rows of each kind: one written `old`, one now."""
    for at in (old, NOW):
        Ledger(store, "c").write([closed(EditKind.RENEW, at), closed(EditKind.PIN, at)])
        job = int(at)
        DecisionRepo(store, "c").record([replace(WHY, submit=job, decided_at=at)])
        OutcomeRepo(store, "c").record([JobOutcome(1, job, job, "A", ("n1",), ((0,),), end=job)])
        SampleRepo(store).add([JobSample(str(at), "c", "1", "bert", "n1", ("GPU-1",), at - 60, at, 1, 0.2)])
        LearnedRepo(store).write([], {str(at): Offset(0.1, 0.1)}, at)
        LearnedRepo(store).put_shown({(f"user{at}", "bert"): "A"}, at)
        VoteRepo(store).put_app(UserApp("bert", f"user{at}", at))
        PairRepo(store).put([UserPair("bert", "net", "a100", 1, f"user{at}", 0.1, 0.1, 1, at)])


def test_what_is_old_is_forgotten_and_what_is_young_stays(store: Store) -> None:
    filled(store, NOW - 91 * DAY)
    OutcomeRepo(store, "c").record([JobOutcome(2, 1, 1, "A", ("n1",), ((0,),))])  # still running
    Ledger(store, "c").write([Intent(0, 1, Pin(2), 1, 1.0)])  # still open
    assert forget(store) == {
        "closed renewals": 1, "closed operations": 1, "last decisions": 1, "jobs that ended": 1, "what jobs showed": 1,
        "what users' jobs said of GPUs": 0, "users' applications": 1,
        "what users' jobs showed beside others": 1, "jobs' own pace": 1, "raw runs": 0,
        "classes that users' jobs showed": 1,
    }  # fmt: skip
    assert not any(forget(store).values())
    assert [o.job for o in OutcomeRepo(store, "c").running()] == [2]
    assert [i.edit.job for i in Ledger(store, "c").watched()] == [2]


def test_renewals_are_forgotten_after_two_hours_already(store: Store) -> None:
    filled(store, NOW - DAY / 8)
    assert {what for what, rows in forget(store).items() if rows} == {"closed renewals"}


def test_the_books_of_another_cluster_are_left_to_its_own_pald(store: Store) -> None:
    filled(store, NOW - 91 * DAY)
    removed = forget(store, cluster="other")
    assert removed["closed operations"] == removed["last decisions"] == removed["jobs that ended"] == 0


def test_an_intent_id_is_not_used_again(store: Store) -> None:
    ledger = Ledger(store, "c")
    [old] = ledger.write([closed(EditKind.PIN, 1.0)])
    assert forget(store)["closed operations"] == 1
    [fresh] = ledger.write([closed(EditKind.PIN, NOW)])
    assert fresh.id > old.id


def test_much_is_removed_some_at_a_time_and_others_get_their_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SOME", 10)
    Ledger(store, "c").write([closed(EditKind.PIN, 1.0, job) for job in range(35)])
    DecisionRepo(store, "c").record([replace(WHY, submit=n, decided_at=1.0) for n in range(20)])
    told: list[int] = []
    turns: list[float] = []
    for rule in rules(KEEP, NOW):
        assert sweep(store, rule, told.append, turns.append) == count(store, rule) + told[-1]
    assert told == [0, 10, 20, 30, 35, 10, 20, 20, 0, 0, 0, 0, 0, 0, 0, 0]
    assert len(turns) == 5


def test_old_runs_are_forgotten_by_whole_nights_and_their_scores_and_nights_stay(store: Store, tmp_path: Path) -> None:
    truth = fleet(3, 2, slow={("n2", 1): 1.5})
    spool = tmp_path / "spool"
    for night in (0, 29, 30, 31, 40):
        put_night(spool, truth, NIGHT - night * DAY, rounds=3)
        take(store, spool)
    before, of_nights, of_runs = scores(store), 5 * 6, 5 * 18

    def rows() -> tuple[int, int]:
        with store.reading() as db:
            return tuple(db.execute(select(func.count()).select_from(t)).scalar_one() for t in (nights, runs))  # type: ignore[return-value]

    assert rows() == (of_nights, of_runs)
    assert forget(store)["raw runs"] == 2 * 18
    assert rows() == (of_nights, 3 * 18)
    assert scores(store) == before
    assert rescore(store, NOW, anew=True).nights == 3
    assert rows() == (of_nights, 3 * 18)
    assert scores(store) == pytest.approx(before, rel=1e-3)
    assert scores(store)["n2", 1] == pytest.approx(1.5, rel=0.03)


def test_pald_forgets_ten_minutes_after_its_start_and_then_once_an_hour(store: Store) -> None:
    decisions = DecisionRepo(store, "c")
    forgetter = Forgetter(store, "c", decisions)
    filled(store, NOW - 91 * DAY)
    decisions.record([WHY])
    begun = [forgetter.begin_when_due(NOW + after, KEEP) for after in (0.0, FIRST_S - 1, FIRST_S)]
    forgetter.beside.wait(60)
    assert begun == [False, False, True]
    assert not any(count(store, rule) for rule in rules(KEEP, NOW))
    assert decisions.record([WHY]) == 1  # its row is gone: it is written again
    assert not forgetter.begin_when_due(NOW + FIRST_S + EVERY_S - 1, KEEP)
    assert forgetter.begin_when_due(NOW + FIRST_S + EVERY_S, KEEP)
    forgetter.beside.wait(60)


@pytest.mark.parametrize("over", ["a restart", "a step"])
def test_a_clock_that_jumps_ahead_removes_nothing_for_a_day(store: Store, over: str) -> None:
    """A month ahead it may be right: pald was away. An admin has a day to set it right."""
    decisions, at = DecisionRepo(store, "c"), [0.0]
    OutcomeRepo(store, "c").record([JobOutcome(7, 1, 2, "A", ("n1",), ((0,),), end=int(NOW))])

    def made() -> Forgetter:
        return Forgetter(store, "c", decisions, monotonic=lambda: at[0])

    def lives(forgetter: Forgetter, now: float, seconds: float) -> None:
        for after in range(0, int(seconds) + 1, 600):
            at[0] += 600.0
            forgetter.begin_when_due(now + after, KEEP)
            forgetter.beside.wait(60)

    forgetter = made()
    lives(forgetter, NOW, 2 * EVERY_S)
    jumped = NOW + 500 * 86_400.0
    forgetter = made() if over == "a restart" else forgetter
    lives(forgetter, jumped, 20 * EVERY_S)
    assert row_counts(store)["job_outcomes"] == 1 and "500 days ahead" in forgetter.note
    lives(forgetter, NOW + 23 * EVERY_S, EVERY_S)
    assert row_counts(store)["job_outcomes"] == 1 and not forgetter.note
    lives(forgetter, jumped, 26 * EVERY_S)  # it is right, then
    assert row_counts(store)["job_outcomes"] == 0 and not forgetter.note
