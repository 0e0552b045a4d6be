"""The way back of docs/admin.md: taken, the cluster runs a job exactly as one that never had pal-slurm."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, mark_of

# What differs between any two jobs, and the names of the two clusters.
VOLATILE = re.compile(
    r"(JobId|JobState|Time|LastSchedEval|Scheduler|SLUID|Sid|Id|StdOut|StdErr|Priority|StartTime|RunTime|BatchHost|NodeList)$"
)


@pytest.mark.slurm("26.05", "22.05")
def test_after_the_way_back_a_job_runs_as_if_pal_slurm_had_never_been_there(
    make_minicluster: Callable[..., Minicluster], tmp_path: Path
) -> None:
    never = make_minicluster("--no-pal", "--nodes", "2")
    back = make_minicluster("--nodes", "2")
    with Pald(back, tmp_path) as pald:
        pald.start()
        pinned = back.submit("--gres=gpu:2", "--comment=app:resnet")
        back.wait_state(pinned, "RUNNING")
        assert mark_of(back, pinned)
        waits = back.submit("-N2", "--gpus-per-node=4", "--comment=app:resnet")
        pald.wait_cycle()
        assert mark_of(back, waits)
        pald.stop()
        assert "1 of 1 jobs are as they were" in pald.palctl("undo", "--all")
    conf = back.etc / "slurm.conf"
    kept = [line for line in conf.read_text().splitlines() if "Plugins=lua" not in line]
    conf.write_text("\n".join(kept) + "\n")
    (back.etc / "plugstack.conf").write_text("")
    back.client("scontrol", "reconfigure")
    back.client("scancel", str(pinned))
    back.wait_state(waits, "RUNNING")  # what pald had leased starts in its turn
    back.client("scancel", str(waits))
    wait_for(lambda: not back.client("squeue", "-h").strip(), "the queue is empty")
    assert shown(back) == shown(never)


def shown(cluster: Minicluster) -> dict[str, str]:
    """A job as scontrol shows it while it runs, without what differs between any two jobs."""
    job = cluster.submit("--gres=gpu:2", "--comment=app:resnet")
    cluster.wait_state(job, "RUNNING")
    fields = {key: value for key, value in cluster.fields(job).items() if not VOLATILE.search(key)}
    fields["devices"] = str(sorted(cluster.gpu_indices(job).values()))
    assert fields["TresPerNode"].endswith("gpu:2")
    return fields
