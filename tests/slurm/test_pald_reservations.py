"""What reservations leave of a cluster is given out as without pald, and pald sees on while they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pal_slurm.model import EditKind, Outcome
from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald


def reserve(cluster: Minicluster, *words: str) -> None:
    told = ("ReservationName=kept", "Users=root", "Nodes=n1", "Duration=60", *words)
    cluster.client("scontrol", "create", "reservation", *told)


@pytest.mark.slurm("26.05", slow=("22.05", "24.11"))
def test_some_cores_a_floating_one_and_one_that_a_job_may_be_cut_short_for(
    minicluster: Minicluster, tmp_path: Path
) -> None:
    minicluster.drain("n[2-8]")
    with Pald(minicluster, tmp_path) as pald:
        pald.start()

        def started(*options: str) -> tuple[EditKind, ...]:
            """What was done to such a job, which runs then."""
            job = minicluster.submit("--gres=gpu:1", *options, user="nobody")
            minicluster.wait_state(job, "RUNNING")
            return tuple(i.edit.kind for i in pald.intents(job) if i.outcome is Outcome.DONE)

        reserve(minicluster, "StartTime=now", "CoreCnt=4")
        assert started("-t", "10") == (EditKind.PLAIN,)  # which GPUs are left Slurm alone knows
        minicluster.client("scontrol", "delete", "ReservationName=kept")
        reserve(minicluster, "StartTime=now+30minutes", "Flags=TIME_FLOAT")  # pyslurm has no name for that
        assert started("-t", "10") == (EditKind.PIN,)
        assert started("-t", "60", "--time-min=5") == (EditKind.PLAIN,)  # Slurm ends it before
