"""Thousands of waiting jobs: slurmctld answers us in 5 % of its time, and is edited 20 times a second at most (P8)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from pal_slurm.model import EditKind
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, plain

WAITING = 3000
RATE, BURST = 20.0, 64.0
SHARE = 0.05
WINDOW_S = 60.0


@pytest.mark.slow
@pytest.mark.slurm("26.05", "22.05")
def test_3000_waiting_jobs_stay_within_both_budgets(minicluster: Minicluster, tmp_path: Path) -> None:
    with plain(minicluster):
        blocker = minicluster.submit("-N8", "--gpus-per-node=4", "-t", "600")
    minicluster.wait_state(blocker, "RUNNING")
    lua_settings(minicluster, lease="60")
    budgets = {"budget.edits_per_s": int(RATE), "budget.keep_share": 0, "budget.read_share": SHARE}
    with Pald(minicluster, tmp_path, budgets) as pald:
        pald.start()
        minicluster.submit_many(WAITING, "-t", "60", "--gres=gpu:1", wrap="sleep 1")
        pald.wait_cycle(within=120)
        before, begun = asked_us(minicluster), time.time()
        wait_for(lambda: time.time() > begun + WINDOW_S, "a minute", WINDOW_S + 30)
        pald.kill()
        spent, lasted = (asked_us(minicluster) - before) / 1e6, time.time() - begun
        written = sorted(i.written_at for i in pald.ledger())
        late = sum(at > begun for at in written)
        print(f"questions took {spent:.3f} s of {lasted:.0f} s; {len(written)} edits, {late} of them in that time")
        assert 0 < spent <= SHARE * lasted
        assert written and all(fits(written, first) for first in range(len(written)))
        assert {i.edit.kind for i in pald.ledger()} <= {EditKind.RENEW, EditKind.LEASE}


def fits(written: list[float], first: int) -> bool:
    """From this edit on, never more than the bucket held and was given since."""
    ends = ((n, at) for n, at in enumerate(written[first:], 1))
    return all(n <= BURST + RATE * (at - written[first] + 1) for n, at in ends)


def asked_us(cluster: Minicluster) -> int:
    """What slurmctld counts as spent on questions (queue, nodes, partitions ...), by anybody; sdiag's own are none."""
    text = cluster.client("sdiag").partition("statistics by message type")[2].partition("statistics by user")[0]
    found = re.findall(r"REQUEST_(?:\w*INFO\w*)\s.*?total_time:(\d+)", text)
    return sum(map(int, found))
