"""palctl undo with a pal.yaml that pald refuses: what was given out is taken back all the same (P1)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pal_slurm.cli.palctl import palctl
from pal_slurm.daemon import connect
from pal_slurm.model import EditKind
from tests.simpald import SETUP, House

Undo = Callable[..., Result]
STANDS_STILL = replace(SETUP, main_s=1e9, backfill_s=1e9)


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    return tmp_path / "pal.yaml"


@pytest.fixture
def undo(monkeypatch: pytest.MonkeyPatch, house: House, yaml: Path) -> Undo:
    monkeypatch.setattr(connect, "connect", lambda config: house.slurm)
    return lambda *words: CliRunner().invoke(palctl, ["--config", str(yaml), "undo", "--all", *words])


def waits(house: House) -> int:
    for _ in range(4):
        house.submit("--gres=gpu:4", runs=5000.0)
    house.live(10)
    job = house.submit("--gres=gpu:2")
    house.live(5)
    house.kill()
    assert house.job(job).begin > house.now
    return job


@pytest.mark.parametrize(
    "text", ["lease: {lenght_s: 20}\n", "actuator: pin\nactuator: pin\n", "lease:\n\tx: 1\n", "[", None]
)
def test_a_queue_is_freed_whatever_stands_in_pal_yaml(house: House, undo: Undo, yaml: Path, text: str | None) -> None:
    job = waits(house)
    if text is not None:
        yaml.write_text(text)
    said = undo()
    assert said.exit_code == 0 and "1 of 1 jobs are as they were" in said.output
    assert f"palctl: {yaml}" in said.output and "defaults for the rest" in said.output
    assert house.job(job).begin <= house.now


def test_the_dead_man_s_timer_frees_it_too_once_the_signs_of_life_are_old(
    house: House, undo: Undo, yaml: Path, tmp_path: Path
) -> None:
    job = waits(house)
    alive = tmp_path / "alive"
    alive.write_text("1\n")
    yaml.write_text(f"cycle: {{alive_file: {alive}}}\nactuator: pinn\n")
    assert "nothing to do" in undo("--if-dead", "60").output
    assert house.job(job).begin > house.now
    os.utime(alive, (0, time.time() - 61))
    assert undo("--if-dead", "60").exit_code == 0
    assert house.job(job).begin <= house.now


def test_a_sign_of_life_from_the_future_is_none(house: House, undo: Undo, yaml: Path, tmp_path: Path) -> None:
    """The clock was set back, and pald has died meanwhile."""
    job = waits(house)
    alive = tmp_path / "alive"
    alive.write_text("1\n")
    os.utime(alive, (0, time.time() + 3600))
    yaml.write_text(f"cycle: {{alive_file: {alive}}}\n")
    assert undo("--if-dead", "60").exit_code == 0
    assert house.job(job).begin <= house.now


@pytest.mark.parametrize("text", ["[", "cycle: {alive_fil: /nowhere/alive}\n", "cycle: {alive_file: ''}\n"])
def test_where_signs_of_life_can_t_be_looked_for_a_pald_that_may_live_is_left_alone(
    house: House, undo: Undo, yaml: Path, text: str
) -> None:
    """pald may have been started before that was written: the timer would undo all that it does, twice a minute."""
    job = waits(house)
    yaml.write_text(text)
    said = undo("--if-dead", "60")
    assert said.exit_code != 0 and "nothing is undone" in str(said.exception)
    assert house.job(job).begin > house.now


def named(house: House) -> tuple[int, int]:
    """Two that wait, let go: one with nodes of its user's choice, one with a pin that its pald left."""
    house.controller.setup = STANDS_STILL
    jobs = house.submit("--gres=gpu:1"), house.submit("--gres=gpu:1")
    house.pald.cycle()
    house.kill()
    house.user_edits(jobs[0], required_nodes="n2", per_node="gres/gpu:1")
    assert all(house.job(job).begin <= house.now and house.job(job).record.required_nodes for job in jobs)
    return jobs


def test_nodes_of_a_users_own_choice_stay_where_the_ledger_tells_what_we_wrote(
    house: House, undo: Undo, yaml: Path
) -> None:
    theirs, ours = named(house)
    yaml.write_text(f"state_dir: {house.home}\n")
    assert "1 of 1 jobs are as they were" in undo().output
    assert [house.job(job).record.required_nodes for job in (theirs, ours)] == ["n2", ""]


def test_nodes_of_a_pin_that_was_taken_back_are_their_users_when_he_names_them(
    house: House, undo: Undo, yaml: Path
) -> None:
    house.controller.setup = STANDS_STILL
    job = house.submit("--gres=gpu:1")
    house.submit("--gres=gpu:1", "--comment=pal:off")  # behind it in Slurm's queue: it is not leased again
    house.pald.cycle()
    (node,) = {update.asked.texts["nodes"] for update in house.pins(job)}
    house.controller.set_node(node, "DRAIN")
    house.pald.cycle()
    assert house.intents(job, EditKind.UNPIN) and not house.job(job).record.required_nodes
    house.kill()
    house.user_edits(job, required_nodes=node)
    yaml.write_text(f"state_dir: {house.home}\n")
    assert "nothing of ours is in the queue" in undo().output
    assert house.job(job).record.required_nodes == node


def test_a_pin_that_came_through_torn_holds_no_job(house: House, undo: Undo, yaml: Path) -> None:
    _, ours = named(house)
    house.user_edits(ours, per_node="gres/gpu:1")  # its nodes stand, its slots do not
    yaml.write_text(f"state_dir: {house.home}\n")
    assert "1 of 1 jobs are as they were" in undo().output
    assert house.job(ours).record.required_nodes == ""


def test_without_the_ledger_nodes_beside_our_mark_may_be_a_pin(house: House, undo: Undo, yaml: Path) -> None:
    theirs, _ = named(house)
    yaml.write_text("")
    assert "2 of 2 jobs are as they were" in undo().output
    assert house.job(theirs).record.required_nodes == ""
