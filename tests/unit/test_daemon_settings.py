"""What slurm.conf and pal.yaml say changes under a running pald: which of it counts, and what is told of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pal_slurm.config.composition import composition_of
from pal_slurm.config.schema import PolicySection
from pal_slurm.daemon.leader import Leader
from pal_slurm.daemon.leases.alive import Alive
from pal_slurm.daemon.main import _ask_settings, _reload
from pal_slurm.daemon.wake import Waker
from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import EditKind
from pal_slurm.policy.composition import composition_names
from pal_slurm.policy.order.slurm import SlurmOrder
from tests.simpald import House

MakeHouse = Callable[..., House]
SHRINKS = "sched_interval=5,bf_interval=5"


def reconfigured(house: House, parameters: str) -> None:
    house.controller.setup = replace(house.controller.setup, parameters=parameters)


def ask_settings(house: House) -> None:
    house.pald.pald = _ask_settings(house.pald.pald)


def reload(house: House, yaml: Path) -> bool:
    """Whether that is over."""
    house.pald.pald, over = _reload(house.pald.pald, yaml, dry_run=False)
    return over


def pinned(house: House) -> bool:
    job = house.submit("--gres=gpu:1")
    house.live(30)
    assert house.state(job) == "RUNNING"
    return bool(house.pins(job))


@pytest.fixture
def yaml(house: House) -> Path:
    """The pal.yaml that this pald was started with."""
    file = house.home / "pal.yaml"
    lock = house.home / "pald.lock"
    file.write_text(
        f"actuator: pin\nstate_dir: {house.home}\nleader: {{lock_file: {lock}}}\nmetrics: {{listen: ''}}\n"
        "cycle: {wake_file: '', alive_file: ''}\nlearning: {enabled: false}\n"
        "lease: {let_through: false, spare_preempting: false}\n"
    )
    return file


def test_a_line_that_slurm_conf_lacked_counts_without_a_restart_of_pald(house: House) -> None:
    given = house.controller.setup.parameters
    reconfigured(house, SHRINKS)
    house.restart()
    assert not pinned(house)
    reconfigured(house, given)
    ask_settings(house)
    assert pinned(house)
    reconfigured(house, SHRINKS)
    ask_settings(house)
    assert not pinned(house)


def test_no_named_policy_has_pald_start_jobs_in_another_order_than_slurms(make_house: MakeHouse) -> None:
    for name in composition_names():
        assert isinstance(composition_of(PolicySection(name=name)).order, SlurmOrder), name
    house = make_house(count=1, policy={"name": "dally"})
    full = house.submit("--gres=gpu:4", "-t10", runs=60)
    house.live(5)
    last, first = house.submit("--gres=gpu:4", "-t10"), house.submit("--gres=gpu:4", "-t60")
    house.user_edits(first, priority=4_294_901_761)
    house.live(120)
    assert (house.state(full), house.state(last), house.state(first)) == ("COMPLETED", "PENDING", "RUNNING")


def test_a_slurmctld_that_does_not_answer_changes_no_setting(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as gone:
        gone.setattr(house.slurm, "setup", away)
        ask_settings(house)
    assert pinned(house) and house.pald.pald.faults.note == ""


def test_a_reload_waits_for_slurmctld_and_is_no_mistake(
    house: House, yaml: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as gone:
        gone.setattr(house.slurm, "setup", away)
        assert not reload(house, yaml)
    assert "until slurmctld answers" in caplog.text and house.pald.pald.notes == ()
    yaml.write_text(yaml.read_text().replace("actuator: pin", "actuator: shadow"))
    assert reload(house, yaml)
    assert house.pald.pald.config.actuator == "shadow"


def test_a_pal_yaml_that_was_refused_is_told_until_one_is_taken(house: House, yaml: Path) -> None:
    """`palctl status` reads that file, and pald goes by the one before it."""
    good = yaml.read_text()
    yaml.write_text(good.replace("actuator: pin", "actuator: pn") + "surprise: 1\n")
    assert reload(house, yaml)
    [note] = house.pald.pald.notes
    assert "was refused at the last reload" in note and "did you mean `pin`" in note and "\n" not in note
    yaml.write_text(good)
    assert reload(house, yaml)
    assert house.pald.pald.notes == ()
    assert pinned(house) and house.intents(None, EditKind.PIN)


def test_a_pald_that_ends_takes_its_sign_of_life_back_unless_another_leads(house: House) -> None:
    """job_submit.lua would believe it for a minute, and jobs wait for nobody."""
    standby = house.another("elsewhere")
    house.live(5)
    standby.cycle()
    standby.sign.beat_at = house.pald.sign.beat_at  # the file is one on a host
    standby.close()
    assert standby.alive(house.now) and house.pald.alive(house.now)
    house.pald.close()
    assert not house.pald.alive(house.now)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner", [(65534, 65533), (0, 65533)])  # as its state directory, and as /run/pal-slurm
def test_what_a_pald_that_root_ran_once_leaves_behind_is_palds_own(
    house: House, tmp_path: Path, owner: tuple[int, int]
) -> None:
    os.chown(tmp_path, *owner)
    leader = Leader(tmp_path / "pald.lock", house.pald.pald.leader.row, 30.0, house.pald.clock)
    leader._lock()
    Waker(house.pald.clock, house.slurm, tmp_path / "wake").mark()
    Alive(tmp_path / "alive").beat(1.0)
    leader.resign()
    left = {file.name: file.stat() for file in tmp_path.iterdir()}
    assert set(left) == {"pald.lock", "wake", "alive"}
    assert {(file.st_uid, file.st_gid) for file in left.values()} == {owner}
    # Where the directory is root's, pald writes both by its group.
    assert {name: left[name].st_mode & 0o777 for name in ("wake", "alive")} == {"wake": 0o660, "alive": 0o664}


def away() -> None:
    raise SlurmUnavailable("no answer in time")


def test_a_spool_that_can_not_be_read_stands_in_status_until_it_can(house: House, yaml: Path) -> None:
    spool = house.home / "spool"
    wanted = f"learning: {{enabled: true, interval_s: 1}}\nprofile: {{spool: {spool}}}"
    yaml.write_text(yaml.read_text().replace("learning: {enabled: false}", wanted))
    assert reload(house, yaml)

    def looked() -> tuple[str, ...]:
        house.live(30)
        house.pald.pald.cycle.books.learner.beside.wait()
        return house.pald.pald.notes

    [note] = looked()
    assert note.startswith("nothing is learned from the spool since ")
    assert note.endswith(f"the spool {spool} can't be read: No such file or directory")
    spool.mkdir()
    looked()
    assert looked() == ()
