"""palctl moves and a mover's story in palctl why, of a ledger that pald wrote; what would be moved now."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from pal_slurm.cli.palctl import palctl
from pal_slurm.config import CanarySection
from pal_slurm.daemon.build import assembled
from pal_slurm.daemon.moves.what_if import NOTHING_PAYS, OUTSIDE, WouldMove, what_if
from pal_slurm.daemon.state import state_of
from pal_slurm.model import (
    Action,
    App,
    Apps,
    Decision,
    Ending,
    Knowledge,
    Move,
    MoveTerms,
    Placement,
    Reason,
    Request,
    ScoreTable,
)
from pal_slurm.report.moves import move_sentences, summary
from pal_slurm.report.what_if import would_rows
from pal_slurm.sim.daemon import settings
from pal_slurm.sim.slurm.manners import Manners, requeues
from tests.moving import QUICK_MOVES, Wanted, there
from tests.simpald import House

Make = Callable[..., House]
WELL = Manners(term_s=0.5)


def asked(home: Path, *words: str) -> str:
    config = home / "pal.yaml"
    config.write_text(f"state_dir: {home}\ndatabase: {{url: 'sqlite:///{home}/pal.sqlite'}}\n")
    done = CliRunner().invoke(palctl, ["--config", str(config), *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def house(make_house: Make) -> House:
    return make_house(release="26.05", **QUICK_MOVES)


def moved(house: House, *options: str, manners: Manners = WELL) -> int:
    job = house.submit("--gres=gpu:2", *options, manners=manners, runs=5000.0)
    house.live(5)
    Wanted(house).move(job, there("n4", 1, 3))
    house.live(20)
    assert house.where(job) == {"n4": (1, 3)}
    return job


def test_a_move_is_a_row_with_what_it_was_reckoned_to_cost_and_to_bring(house: House) -> None:
    job = moved(house, "--comment=app:resnet pal:move")
    (row,) = json.loads(asked(house.home, "moves", "--since", "10y", "--json"))
    assert (row["job"], row["ending"], row["to"], row["gpus"]) == (job, "moved", "n4:g1,g3", 2)
    assert (row["cost_s"], row["gain_s"], row["real_gain_s"]) == (60.0, 600.0, None)
    assert 0 <= row["dead_s"] <= 4 and row["app"] == "resnet"
    page = asked(house.home, "moves", "--since", "10y")
    assert page.splitlines()[0].split()[:5] == ["JOB", "APP", "GPUS", "BEGAN", "ENDING"]
    assert "1 moves (1 moved); they cost" in page and "STOPPED" not in page


def test_no_move_is_said_in_a_sentence_and_as_an_empty_list(house: House) -> None:
    house.submit("--gres=gpu:1")
    house.live(5)
    assert asked(house.home, "moves") == "no running job was moved\n"
    assert json.loads(asked(house.home, "moves", "--json")) == []


def test_why_tells_the_story_of_a_mover(house: House) -> None:
    job = moved(house, "--comment=pal:move=USR1@30", manners=Manners(0.5, 3.0, requeues))
    told = asked(house.home, "why", str(job))
    assert "asked to save by SIGUSR1 to its steps: done" in told
    assert "it was to move from " in told and " to n4:g1,g3." in told
    assert "SIGUSR1 went to its steps first, with 30 s to save and to requeue the job." in told
    assert "Reckoned: 1.2 to 1 s/step, 600 s won for 60 s lost" in told and "s between its runs" in told
    assert "pinned to n4:g1,g3" in told and "It runs there" in told
    assert len(json.loads(asked(house.home, "why", str(job), "--json"))["moves"]) == 1


def a_move(**changes: object) -> Move:
    old, new = Placement(("n1",), ((0, 1),), exact=True), Placement(("n2",), ((2, 3),), exact=True)
    move = Move(7, 100, "u", 0, old, Request(), 1_800_000_000.0, target=new, cost_s=60.0, gain_s=900.0)
    return replace(move, **changes)  # type: ignore[arg-type]


def test_the_story_says_how_each_move_ended_and_what_it_brought() -> None:
    for ending in (None, *Ending):
        (first, *_) = move_sentences(a_move(ending=ending))
        assert first.endswith(".") and "from n1:g0,g1 to n2:g2,g3" in first
    steps = {"step_before": 1.5, "step_after": 1.0}
    measured = list(
        move_sentences(a_move(ending=Ending.MOVED, real_cost_s=71.4, real_gain_s=850.0, partner=8, **steps))
    )
    assert measured[0].endswith("to n2:g2,g3, while job 8 takes its GPUs.")
    assert measured[1].endswith("900 s won for 60 s lost; measured: 850 s won, 71 s lost.")
    hostile = list(move_sentences(a_move(said="\x1b[2Jgone", handed="a\nb")))
    assert all(line.isprintable() for line in hostile)
    assert "to the queue, to make room for job 9" in next(move_sentences(a_move(target=None, makes_room_for=9)))


def test_the_sum_tells_what_was_measured_and_that_moves_have_stopped() -> None:
    week = [a_move(operation=1, ending=Ending.MOVED, real_gain_s=1800.0), a_move(operation=2, ending=Ending.STAYED)]
    lines = list(summary(week, {1: 1800.0, 2: 0.0}, -3600.0, losing=True))
    assert lines[0] == "2 moves (1 moved, 1 stayed); they cost 1.00 GPU hours."
    assert "Of 1 it was measured what they brought: 1.00 GPU hours, where 0.50 were reckoned" in lines[1]
    assert lines[2].startswith("MOVES HAVE STOPPED by themselves")


def would(house: House, **keys: object) -> dict[int, WouldMove]:
    """By one that is not the pald that runs there, as palctl is none."""
    running = house.pald.pald
    config = msgspec.structs.replace(running.config, **keys)
    state = state_of(config, house.pald.clock, house.slurm, running.store, running.setup.cluster_name)
    asked = assembled(config, running.setup, state)
    asked.cycle.books.knowledge = running.cycle.books.knowledge
    return {one.job.id: one for one in what_if(asked)}


@pytest.mark.parametrize("keys", [{"actuator": "shadow"}, {"actuator": "pin"}, QUICK_MOVES])
def test_what_if_says_of_each_running_job_why_it_would_stay(make_house: Make, keys: dict[str, object]) -> None:
    house = make_house(release="26.05", **{**QUICK_MOVES, **keys})
    asks = house.submit("--gres=gpu:1", "--comment=pal:move", runs=5000.0)
    silent = house.submit("--gres=gpu:1", runs=5000.0)
    stays = house.submit("--gres=gpu:1", "--comment=pal:move", "--no-requeue", runs=5000.0)
    house.submit(runs=5000.0)  # no GPU
    house.live(30)
    found = would(house)
    assert set(found) == {asks, silent, stays}
    assert found[asks].said == NOTHING_PAYS
    assert found[silent].said == "nobody said that it may be moved"
    assert found[stays].said == "it can't be requeued"
    rows = would_rows([(one.job, one.decision, one.said) for one in found.values()])
    assert [row["action"] for row in rows] == ["stays"] * 3
    assert {row["moves"] for row in rows} == {"asked", "", "no-requeue"}


def slow_first_node() -> Knowledge:
    score = np.ones((1, 4, 4))
    score[0, 0] = 2.0
    known = np.ones((1, 4, 4), dtype=np.bool_)
    return Knowledge(ScoreTable(("A",), score, (score > 1.0).astype(np.int16), known), Apps())


@pytest.mark.parametrize("actuator", ["shadow", "move"])
def test_what_if_names_the_gpus_that_a_job_on_slow_ones_would_be_moved_to(make_house: Make, actuator: str) -> None:
    keys = {**QUICK_MOVES, "actuator": "shadow"}
    house = make_house(release="26.05", knowledge=slow_first_node(), **keys)
    house.have_run(50_000.0)
    job = house.submit("--gres=gpu:2", "--comment=pal:move", runs=50_000.0)
    silent = house.submit("--gres=gpu:2", runs=50_000.0)
    house.live(30)
    assert {*house.where(job), *house.where(silent)} == {"n1"}, "Slurm took the first node: pald only watched"
    found = would(house, actuator=actuator)
    assert found[silent].decision is None
    decision = found[job].decision
    assert decision is not None and decision.placement is not None and decision.terms is not None
    assert decision.placement.nodes != ("n1",)
    assert decision.terms.gain_s > 2 * decision.terms.cost_s > 0
    (first, _) = would_rows([(one.job, one.decision, one.said) for one in found.values()])
    assert (first["job"], first["action"], first["why"]) == (job, "move", "better-gpus")
    assert house.journal == [], "it was only asked"


@pytest.mark.parametrize(
    ("canary", "moves"),
    [({"percent": 0.0}, False), ({"partitions": ("other",)}, False), ({"partitions": ("gpu",)}, True)],
    ids=str,
)
def test_a_job_outside_the_canary_is_not_moved(make_house: Make, canary: dict[str, object], moves: bool) -> None:
    house = make_house(release="26.05", knowledge=slow_first_node(), **{**QUICK_MOVES, "actuator": "shadow"})
    house.have_run(50_000.0)
    job = house.submit("--gres=gpu:2", "--comment=pal:move", runs=50_000.0)
    house.live(30)
    (found,) = would(house, actuator="move", canary=CanarySection(**canary)).values()  # type: ignore[arg-type]
    assert found.job.id == job and (found.decision is not None) is moves
    assert found.said == ("" if moves else OUTSIDE)


def pin_elsewhere(house: House) -> None:
    for _ in range(3):
        house.submit("--gres=gpu:4", runs=300)
    house.pald.cycle()


STORIES: dict[str, tuple[dict[str, object], Callable[[House], None]]] = {
    "nothing special": ({}, lambda house: None),
    "an application by its name": (
        {"apps": {"net": {"class": "B"}}, "patterns": [{"app": "net", "job_name": "wrap*"}]}, lambda house: None
    ),
    "better GPUs are promised to jobs that were pinned": ({}, pin_elsewhere),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_what_if_names_the_moves_that_pald_makes_and_writes_nothing(make_house: Make, story: str) -> None:
    keys, happens = STORIES[story]
    score = np.ones((2, 4, 4))
    score[0, 0] = 2.0
    scores = ScoreTable(("A", "B"), score, (score > 1.0).astype(np.int16), np.ones(score.shape, dtype=np.bool_))
    known = Knowledge(scores, Apps({"net": App("net", "B")}))
    house = make_house(release="26.05", knowledge=known, **{**QUICK_MOVES, **keys, "actuator": "shadow"})
    house.have_run(50_000.0)
    job = house.submit("--gres=gpu:2", "--comment=pal:move", "-J", "wrap1", runs=50_000.0)
    house.live(30)
    lock = {"leader": {"lock_file": str(house.home / "pald.lock")}}
    house.pald.reload(settings(house.home, {**lock, **QUICK_MOVES, **keys}))
    happens(house)
    before = dump(house)
    found = would(house)
    assert dump(house) == before
    house.pald.cycle()
    begun = {move.job for move in house.pald.pald.cycle.movers.repo.since(0.0)}
    assert begun == {number for number, one in found.items() if one.decision is not None}
    assert (job in begun) is (story == "nothing special")


def dump(house: House) -> list[str]:
    with closing(sqlite3.connect(house.home / "pal.sqlite")) as db:
        return list(db.iterdump())


def test_what_would_go_stands_first_with_its_gain_and_its_cost(house: House) -> None:
    job = house.submit("--gres=gpu:2", "--comment=pal:move", runs=5000.0)
    house.submit("--gres=gpu:2", runs=5000.0)
    house.live(10)
    running = house.slurm.snapshot().running
    terms = MoveTerms(60.0, 600.0, 1.2)
    goes = Decision(job, None, Action.MOVE, Reason.BETTER_GPUS, there("n4", 0, 1), 1.0, terms=terms)
    rows = would_rows([(j, goes if j.id == job else None, "" if j.id == job else "x") for j in running])
    assert [(row["job"] == job, row["action"], row["to"], row["gain_s"], row["why"]) for row in rows] == [
        (True, "move", "n4:g0,g1", 600.0, "better-gpus"), (False, "stays", None, None, "x")
    ]  # fmt: skip
