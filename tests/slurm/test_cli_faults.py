"""The cli backend when Slurm fails it: one sentence each time, no hang, no invented answer, and all well afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pal_slurm.errors import SlurmUnavailable
from pal_slurm.model import LATE, Outcome, Renew
from pal_slurm.slurm.commands.backend import CliSlurm
from tests.slurm.minicluster import Minicluster, wait_for

LATER = "--begin=now+1hour"


@pytest.fixture
def slurm(minicluster: Minicluster) -> Iterator[CliSlurm]:
    """No command of it outlives its test."""
    before = children()  # servers of other tests, perhaps
    yield CliSlurm(minicluster.bin, deadline_s=2.0)
    assert children() <= before


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_a_frozen_slurmctld_costs_a_deadline_and_then_all_is_well(slurm: CliSlurm, minicluster: Minicluster) -> None:
    job = minicluster.submit(LATER, "--gres=gpu:1")
    with minicluster.frozen():
        for ask in (slurm.snapshot, slurm.passes, lambda: slurm.jobs([job])):
            with pytest.raises(SlurmUnavailable, match="no answer within 2 s"):
                ask()
    assert [j.id for j in slurm.snapshot().pending] == [job]


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_a_slurmctld_that_freezes_in_the_middle_of_a_batch_leaves_no_edit_in_doubt_for_long(
    slurm: CliSlurm, minicluster: Minicluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pal_slurm.slurm.commands.write.EACH_S", 0.0)
    ids = [minicluster.submit(LATER, "--gres=gpu:1") for _ in range(60)]
    until = int(time.time()) + 1234
    edits = [Renew(job, until=until) for job in ids]
    pid = minicluster.pid()

    def freeze_once_begun() -> None:
        wait_for(lambda: any(job.eligible == until for job in CliSlurm(minicluster.bin).jobs(ids).values()), "begun")
        os.kill(pid, signal.SIGSTOP)

    slurm.capabilities()  # settings are known: the freeze meets the edits, not the question before them
    freezer = threading.Thread(target=freeze_once_begun)
    freezer.start()
    try:
        results = slurm.apply(edits * 20)
    finally:
        freezer.join()
        os.kill(pid, signal.SIGCONT)
    outcomes = {result.outcome for result in results if result.said != LATE}  # the rest was not sent
    assert outcomes <= {Outcome.DONE, Outcome.UNKNOWN} and Outcome.UNKNOWN in outcomes
    assert all(result.said for result in results if result.outcome is Outcome.UNKNOWN)
    again = slurm.apply(edits)
    assert {result.outcome for result in again} == {Outcome.DONE}, again


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_a_restarted_slurmctld_is_the_same_slurm(slurm: CliSlurm, minicluster: Minicluster) -> None:
    job = minicluster.submit(LATER, "--gres=gpu:2")
    before = slurm.jobs([job])[job]
    until = int(time.time()) + 1000
    slurm.apply([Renew(job, until=until)])
    minicluster.restart()
    after = slurm.jobs([job])[job]
    assert (after.key, after.request, after.eligible) == (before.key, before.request, until)
    assert slurm.apply([Renew(job, until=until + 50)])[0].outcome is Outcome.DONE


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_without_a_slurmctld_there_is_a_sentence_and_no_result_is_invented(
    slurm: CliSlurm, minicluster: Minicluster
) -> None:
    job = minicluster.submit(LATER, "--gres=gpu:1")
    slurm.capabilities()
    with minicluster.stopped():
        with pytest.raises(SlurmUnavailable):
            slurm.snapshot()
        (result,) = slurm.apply([Renew(job, until=int(time.time()) + 900)])
        assert result.outcome is Outcome.UNKNOWN and "nothing was written" in result.said
    assert [j.id for j in slurm.snapshot().pending] == [job]


def test_a_broken_slurm_conf_is_told_in_slurms_own_words(slurm: CliSlurm, minicluster: Minicluster) -> None:
    conf = minicluster.etc / "slurm.conf"
    whole = conf.read_text()
    conf.write_text(whole + "\nNoSuchKeyAtAll=1\n")
    try:
        with pytest.raises(SlurmUnavailable, match="NoSuchKeyAtAll"):
            slurm.snapshot()
    finally:
        conf.write_text(whole)
    assert slurm.snapshot().cluster.n_nodes == 8


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_commands_that_are_not_there_or_not_slurms_are_told(minicluster: Minicluster, tmp_path: Path) -> None:
    with pytest.raises(SlurmUnavailable, match=r"can't run .*squeue.*bin_dir"):
        CliSlurm(tmp_path / "nowhere").snapshot()
    for name in ("squeue", "scontrol", "sdiag"):
        fake = tmp_path / name
        fake.write_text("#!/bin/sh\necho hello\n")
        fake.chmod(0o755)
    other = CliSlurm(tmp_path)
    for ask in (other.snapshot, other.setup, other.passes, other.pulse):
        with pytest.raises(SlurmUnavailable):
            ask()


@pytest.mark.slurm("26.05")
def test_a_slurmctld_of_another_release_is_told(
    minicluster: Minicluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = ("ClusterName=", "SlurmctldHost=", "SlurmctldPort=", "AuthType=", "AuthInfo=")
    lines = (minicluster.etc / "slurm.conf").read_text().splitlines()
    conf = tmp_path / "slurm.conf"
    conf.write_text("".join(f"{line}\n" for line in lines if line.lower().startswith(tuple(map(str.lower, wanted)))))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    old = CliSlurm(Path("/usr/bin"))  # this machine's own commands are of 22.05

    def told(ask: Callable[[], object]) -> bool:
        """Now and then slurmctld has cut the line before its answer is read."""
        with pytest.raises(SlurmUnavailable) as error:
            ask()
        return "version" in str(error.value).lower()

    for ask in (old.snapshot, old.setup):
        wait_for(partial(told, ask), "the version is named")


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_a_sites_own_squeue_settings_change_nothing(minicluster: Minicluster, monkeypatch: pytest.MonkeyPatch) -> None:
    job = minicluster.submit(LATER, "-a", "1-3", "--gres=gpu:1")
    for name, value in {
        "SQUEUE_FORMAT": "%i", "SQUEUE_FORMAT2": "jobid", "SQUEUE_STATES": "R", "SQUEUE_SORT": "-i",
        "SQUEUE_USERS": "x", "SLURM_TIME_FORMAT": "relative", "SLURM_BITSTR_LEN": "1", "SQUEUE_PARTITION": "none",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    (waiting,) = CliSlurm(minicluster.bin).snapshot().pending
    assert (waiting.id, waiting.array_tasks) == (job, (1, 2, 3))


def children() -> set[str]:
    """Processes that this one started and that are still there."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
