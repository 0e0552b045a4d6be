"""Rollout on a real cluster: jobs outside the canary start plain, at once and in their turn; a reload lets all in."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald


@pytest.mark.slurm("22.05", "26.05")
def test_a_job_outside_the_canary_starts_plain_and_one_inside_is_pinned(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    with Pald(minicluster, tmp_path, {"canary.percent": 0.0}) as pald:
        pald.start()
        outside = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(outside, "RUNNING", within=15)  # its lease would last 20 s
        assert pald.intents(outside, EditKind.PIN) == []
        assert len(pald.intents(outside, EditKind.PLAIN)) == 1
        assert "rolled out to a part of the jobs so far" in pald.palctl("why", str(outside))
        assert "canary: 0 % of the jobs" in pald.palctl("status")
        pald.configure({"canary.percent": 100.0})
        pald.mark()
        pald.send(signal.SIGHUP)
        pald.wait_said("reloaded")
        inside = minicluster.submit("--gres=gpu:1")
        minicluster.wait_state(inside, "RUNNING", within=15)
        wait_for(lambda: len(pald.intents(inside, EditKind.PIN)) == 1, "the job is pinned")
        assert "canary:" not in pald.palctl("status")
