"""One writer: a second pald stands by, and a leader that wakes up late writes nothing (P6)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings


@pytest.mark.slurm("26.05")
def test_a_second_pald_stands_by_and_takes_over_when_the_first_is_killed(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path) as first, Pald(minicluster, tmp_path, name="second") as second:
        first.start()
        second.spawn()
        second.wait_said(r"standing by: .* holds .*pald\.lock")
        job = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(job, "RUNNING")
        second.mark()
        second.wait_said("standing by")
        assert "pinned" not in second.said()
        first.kill()
        second.wait_said(r"\d+ pending")
        other = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(other, "RUNNING")
        fences = [first.intents(j, EditKind.PIN)[0].fence for j in (job, other)]
        assert fences[0] < fences[1]
        second.mark()
        assert first.once() == 75
        assert "standing by" in first.said().splitlines()[-1]


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_a_leader_of_another_host_that_wakes_up_late_writes_nothing(minicluster: Minicluster, tmp_path: Path) -> None:
    """Two hosts share the database; the first is suspended between its intent and its edit."""
    journal = Journal(minicluster)
    lua_settings(minicluster, lease="600")  # neither an ending lease nor an old snapshot stops the late one
    settings = {"leader.ttl_s": 5, "cycle.max_age_s": 60}
    hosts = (
        Pald(minicluster, tmp_path, {**settings, "leader.lock_file": str(tmp_path / f"{name}.lock")}, name=name)
        for name in "ab"
    )
    with next(hosts) as late, next(hosts) as new:
        late.start(env={"PAL_CRASH_AT": "after-intent:1:STOP"})
        job = minicluster.submit("--gres=gpu:2")
        wait_for(lambda: bool(late.intents(job)), "the intent is on disk")
        for node in minicluster.nodes:
            minicluster.drain(node)
        new.spawn()
        new.wait_said(r"a\.lock:\d+@\w+ leads for another")
        new.wait_said(r"1 pending, 1 leased")
        late.mark()
        late.send(signal.SIGCONT)
        late.wait_said("leads for another")
        assert journal.edited() == set()
        for node in minicluster.nodes:
            minicluster.resume(node)
        minicluster.wait_state(job, "RUNNING")
        pins = new.intents(job, EditKind.PIN)
        assert [pin.outcome for pin in pins] == [Outcome.REFUSED, Outcome.DONE]
        assert pins[0].fence < pins[1].fence
        assert len(journal.node_lists(job)) == 1
        # And it takes over again, as anybody else, when the other one goes.
        late.mark()
        assert new.stop() == 0
        late.wait_said(r"\d+ pending")
        other = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(other, "RUNNING")
        assert late.intents(other, EditKind.PIN)[0].fence > pins[1].fence
