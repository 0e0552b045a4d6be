"""Edits against leases that end at that very moment: no running job is touched, none is lost (P2)."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome, Pin, Renew
from tests.slurm.backends import backend_of
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Journal, Pald, lua_settings

BATCH = 25
_LINE = re.compile(r"(Allocate|Started|_update_job: setting \w+.*?for) JobId=(\d+)")


@pytest.fixture
def racing(make_minicluster: Callable[..., Minicluster]) -> Minicluster:
    """slurmctld tells some starts only, and none where it looks at its queue each second."""
    often = "SchedulerParameters=disable_job_shrink,batch_sched_delay=0,sched_interval=2,bf_interval=2,bf_continue"
    return make_minicluster("--nodes", "8", "--gpus", "4", "--set", often)


def race(cluster: Minicluster, wanted: int, backend: str) -> Counter[Outcome]:
    """Pins and renewals of leased jobs, again and again until each has started; at least `wanted` edits."""
    rng = random.Random(7)
    tally: Counter[Outcome] = Counter()
    lua_settings(cluster, lease="1")
    with backend_of(cluster, backend) as slurm, cluster.leases():
        exact = slurm.capabilities().restore_untyped
        while tally.total() < wanted:
            left = set(cluster.submit_many(BATCH, "--gres=gpu:1", wrap="sleep 0.2"))
            while left:
                edits = []
                for job in sorted(left):
                    node, slot = rng.choice(cluster.nodes), rng.randrange(cluster.gpus)
                    pin = Pin(job, nodes=(node,), slots=(slot,) if exact else None)
                    later = Renew(job, until=int(time.time()) + 1)
                    edits.append(pin if rng.random() < 0.2 else later)
                results = slurm.apply(edits)
                tally.update(result.outcome for result in results)
                left -= {r.edit.job for r in results if r.outcome in (Outcome.STARTED, Outcome.GONE)}
    return tally


def touched_while_running(journal: Journal) -> list[str]:
    """Jobs to which slurmctld applied anything after it had started them, by its own log."""
    started: set[str] = set()
    wrong = []
    for what, job in _LINE.findall(journal.text()):
        if what in ("Allocate", "Started"):
            started.add(job)
        elif job in started:
            wrong.append(f"{job}: {what}")
    assert started
    return wrong


def check(cluster: Minicluster, journal: Journal, tally: Counter[Outcome]) -> None:
    wait_for(lambda: not cluster.client("squeue", "-h"), "the queue is empty", 60)
    assert touched_while_running(journal) == []
    assert tally[Outcome.STARTED] + tally[Outcome.GONE] > 0  # else nothing was raced
    submitted = set(re.findall(r"_slurm_rpc_submit_batch_job: JobId=(\d+)", journal.text()))
    told = cluster.client("squeue", "-h", "-t", "all", "-o", "%A %T").splitlines()
    ended = {job: state for job, state in (line.split() for line in told) if job in submitted}
    assert set(ended) == submitted
    assert set(ended.values()) == {"COMPLETED"}


BACKENDS = {"22.05": "cli", "24.11": "cli", "26.05": "pyslurm"}


@pytest.mark.slurm(turns=("22.05", "26.05"), slow=("24.11",))
def test_150_edits_against_leases_that_end_touch_no_running_job(racing: Minicluster) -> None:
    journal = Journal(racing)
    tally = race(racing, 150, BACKENDS[racing.release])
    check(racing, journal, tally)


@pytest.mark.slow
def test_1000_edits_against_leases_that_end_touch_no_running_job(racing: Minicluster) -> None:
    journal = Journal(racing)
    tally = race(racing, 1000, BACKENDS[racing.release])
    check(racing, journal, tally)


@pytest.mark.slurm("26.05")
def test_pald_itself_with_leases_that_end_all_the_time_touches_no_running_job(
    racing: Minicluster, tmp_path: Path
) -> None:
    journal = Journal(racing)
    with Pald(racing, tmp_path, {"lease.margin_s": 0.5}) as pald:
        pald.start()
        lua_settings(racing, lease="2")
        jobs = set(racing.submit_many(60, "--gres=gpu:2", wrap="sleep 0.5"))
        wait_for(lambda: not racing.client("squeue", "-h"), "the queue is empty", 90)
        pald.wait_cycle()
        assert touched_while_running(journal) == []
        told = racing.client("squeue", "-h", "-t", "CD", "-o", "%A").split()
        assert jobs <= set(map(int, told))
        assert [i for i in pald.ledger() if i.outcome in (None, Outcome.UNKNOWN) or not i.closed] == []
        assert {i.edit.job for i in pald.ledger() if i.edit.kind is EditKind.PIN} & jobs
