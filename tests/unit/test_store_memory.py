"""Applications, decisions, outcomes, pause: what is written comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import event

from pal_slurm.config import AppEntry, Config
from pal_slurm.learning.knowledge import known_apps
from pal_slurm.model import Action, App, Decision, Placement, Reason
from pal_slurm.store import (
    AppRepo,
    DecisionRepo,
    JobOutcome,
    OutcomeRepo,
    Pause,
    Said,
    Store,
    Switches,
    Weighed,
    Why,
)
from pal_slurm.store.clusters import known_clusters

PLACED = Placement(("n1",), ((0, 1),), exact=True)
WHY = Why(
    decision=Decision(7, None, Action.START, Reason.BEST_SPAN, PLACED, 0.2, 0.3, 4),
    submit=100,
    decided_at=200.0,
    actuator="pin",
    app="resnet",
    app_known=True,
    cls="A",
    gpus=2,
    free_gpus=8,
    ahead=4,
    weighed=(Weighed("chosen", PLACED, 0.2, 1.0, 1.0, 0.2, "node", 1.0),),
)


def test_apps_come_back_and_a_later_word_replaces_an_earlier(store: Store) -> None:
    repo = AppRepo(store)
    repo.set([App("bert", "B", {"v100": 0.2}, (1.0, 1.0, 1.1, 1.3)), App("vgg", "C")], "admin", 1.0)
    repo.set([App("vgg", "A")], "measured", 2.0)
    assert repo.all()["bert"].app == App("bert", "B", {"v100": 0.2}, (1.0, 1.0, 1.1, 1.3))
    assert (repo.all()["vgg"].app.cls, repo.all()["vgg"].source) == ("A", "measured")
    assert repo.revision() == 2


def test_names_that_differ_in_case_are_different_apps(store: Store) -> None:
    AppRepo(store).set([App("bert", "B"), App("BERT", "C")], "admin", 1.0)
    assert {name: kept.app.cls for name, kept in AppRepo(store).all().items()} == {"bert": "B", "BERT": "C"}


def test_the_config_wins_over_the_database(store: Store) -> None:
    AppRepo(store).set([App("bert", "B"), App("vgg", "C")], "admin", 1.0)
    config = Config(apps={"bert": AppEntry(cls="A")})
    assert known_apps(store, Config()).get("bert").cls == "B"
    assert known_apps(store, config).get("bert").cls == "A"
    assert known_apps(store, config).get("vgg").cls == "C"
    assert known_apps(store, config).get("unheard-of").cls == "A"


def test_the_last_decision_per_job_is_kept_whole(store: Store) -> None:
    repo = DecisionRepo(store, "c")
    assert repo.record([WHY]) == 1
    waits = replace(WHY, decision=Decision(7, None, Action.WAIT, Reason.NO_ROOM), decided_at=300.0, weighed=())
    assert repo.record([waits]) == 1
    assert repo.of_job(7) == [waits]
    assert DecisionRepo(store, "other").of_job(7) == []


def test_a_decision_that_says_nothing_new_is_not_written_again(store: Store) -> None:
    repo = DecisionRepo(store, "c")
    repo.record([WHY])
    assert repo.record([replace(WHY, decided_at=201.0, free_gpus=3, decision=replace(WHY.decision, rank=2))]) == 0
    assert DecisionRepo(store, "c").record([WHY]) == 1  # another process can't know


def test_an_outcome_is_written_at_the_start_and_completed_at_the_end(store: Store) -> None:
    repo = OutcomeRepo(store, "c")
    started = JobOutcome(
        7, 100, 200, "A", ("n1", "n2"), ((0,), (1,)), task=3, app="bert", as_pinned=False, step_time=0.2
    )
    repo.record([started])
    repo.record([started])
    assert repo.running() == [started]
    repo.ended([(7, 100)], 260)
    assert repo.of_job(7) == repo.of_jobs([8, 7]) == [replace(started, end=260)]
    assert repo.running() == []
    repo.record([replace(started, start=300)])  # requeued: a second start
    assert [o.start for o in repo.newest()] == [300, 200]


def test_one_job_among_all_is_found_without_reading_all(sqlite_store: Store) -> None:
    """Nobody tells SQLite how many rows there are: it takes what index the question itself suggests."""
    asked: list[tuple[str, Any]] = []

    def heard(_db: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    repo = OutcomeRepo(sqlite_store, "c")
    repo.record([JobOutcome(7 + i, 100, 200 + i, "A", ("n1",), ((0,),), task=i, array_id=7) for i in range(3)])
    decided = DecisionRepo(sqlite_store, "c")
    decided.record(replace(WHY, decision=replace(WHY.decision, job=job), decided_at=300.0 - job) for job in (7, 8, 9))
    event.listen(sqlite_store.engine, "before_cursor_execute", heard)
    assert [[w.decision.job for w in found] for found in (decided.of_job(8), decided.of_jobs([8, 9]))] == [[8], [8, 9]]
    assert [w.decision.job for w in decided.newest(2)] == [7, 8]
    assert [[o.job for o in got] for got in (repo.of_job(8), repo.of_jobs([8, 9]), repo.of_array(7))] == [
        [8], [8, 9], [7, 8, 9],
    ]  # fmt: skip
    event.remove(sqlite_store.engine, "before_cursor_execute", heard)
    selects = [one for one in asked if one[0].startswith("SELECT")]
    with sqlite_store.reading() as db:
        plans = [str(db.exec_driver_sql(f"EXPLAIN QUERY PLAN {told}", given).all()) for told, given in selects]
    newest = plans.pop(2)
    assert "USING INDEX ix_decisions_cluster_decided_at" in newest
    assert len(plans) == 6
    assert all("(cluster=? AND job=?)" in plan or "(cluster=? AND array_id=?)" in plan for plan in plans), plans


def test_what_was_decided_of_an_array_as_a_whole_is_told_however_many_tasks_it_has(sqlite_store: Store) -> None:
    decided = DecisionRepo(sqlite_store, "c")
    of = [replace(WHY, decision=replace(WHY.decision, job=7, task=task)) for task in (*range(1200), None)]
    decided.record(of)
    assert [why.decision.task for why in decided.of_job(7)].count(None) == 1


def test_pause_and_resume(store: Store) -> None:
    switches = Switches(store)
    assert switches.paused() is None
    switches.pause("maintenance", 5.0)
    switches.pause("maintenance goes on", 6.0)
    assert switches.paused() == Pause("maintenance goes on", 6.0)
    switches.resume()
    switches.resume()
    assert switches.paused() is None


def test_the_clusters_of_a_database_are_known(store: Store) -> None:
    assert known_clusters(store) == []
    DecisionRepo(store, "one").record([WHY])
    OutcomeRepo(store, "two").record([JobOutcome(1, 1, 1, "A", ("n1",), ((0,),))])
    assert known_clusters(store) == ["one", "two"]


def test_what_a_pald_says_of_itself_is_of_one_cluster_and_replaced(store: Store) -> None:
    said, other = Said(store, "c" * 64), Said(store, "d")
    assert said.notes() == ()
    said.say(["no figures", "a fault"], 1.0)
    assert said.notes() == ("no figures", "a fault")
    assert other.notes() == ()
    said.say([], 2.0)
    assert said.notes() == ()


def test_of_many_runs_those_of_each_user_count_alike_the_newest_first(store: Store) -> None:
    def ran(job: int, user: str, took: int | None, app: str | None = "x") -> JobOutcome:
        end = None if took is None else 1000 + job + took
        return JobOutcome(job, 1, 1000 + job, "A", ("n1",), ((0,),), end=end, app=app, user=user)

    repo = OutcomeRepo(store, "c")
    repo.record([*(ran(job, "ann", 100) for job in range(50)), *(ran(job, "bob", 100) for job in range(-9, -5))])
    repo.record([ran(60, "bob", 59), ran(61, "bob", None), ran(62, "bob", 100, None), ran(63, "bob", 100, "")])
    OutcomeRepo(store, "two").record([ran(70, "bob", 100)])
    assert sorted(o.job for o in repo.ran(0, 60, 6)) == [-8, -7, -6, 47, 48, 49]
    assert len(repo.ran(0, 60, 1000)) == 54 and len(repo.ran(1000, 60, 1000)) == 50
