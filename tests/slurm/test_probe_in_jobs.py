"""pal-probe in jobs of real clusters, with the interpreter that the node's system has and nothing installed."""

import json
import time
from collections.abc import Callable
from statistics import median

import pytest

from pal_slurm.probe.document import Document
from pal_slurm.probe.reading import read, read_file
from tests.slurm.minicluster import PROJECT, Minicluster

PROBE = ["env", f"PYTHONPATH={PROJECT}", "PYTHONDONTWRITEBYTECODE=1", "python3", "-m", "pal_slurm.probe"]
KERNELS = [word for cls in "ABC" for word in ("-k", f"fake:{cls},base=0.02,noise=0.005,pace=0")]
QUICK = ["--rounds", "3", "--warm", "0", "--run", "0.2", "--cool-wait", "0", "--scope", "gpu"]


def measured(cluster: Minicluster, node: str) -> Document:
    gres = ",".join(f"gpu:g{slot}:1" for slot in range(cluster.gpus))
    words = [
        "srun",
        "--exclusive",
        "-w",
        node,
        f"--gres={gres}",
        *PROBE,
        "bench",
        "--devices",
        "fake",
        *KERNELS,
        *QUICK,
    ]
    reading = read(cluster.client(*words, timeout=120).encode(), time.time())
    assert reading.document is not None, reading.defects
    return reading.document


@pytest.mark.slurm
def test_a_job_per_node_measures_what_speeds_json_hides(make_minicluster: Callable[..., Minicluster]) -> None:
    cluster = make_minicluster("--nodes", "2", "--gpus", "4", "--speeds-seed", "5")
    hidden = json.loads((cluster.dir / "speeds.json").read_text())
    uuids: set[str] = set()
    for node in cluster.nodes:
        document = measured(cluster, node)
        assert document.faults == () and document.job is not None
        assert [(device.node, device.slot) for device in document.devices] == [(node, slot) for slot in range(4)]
        uuids |= {device.uuid for device in document.devices}
        slots = {device.uuid: f"g{device.slot}" for device in document.devices}
        classes = {kernel.app: kernel.cls for kernel in document.kernels}
        found: dict[tuple[str, str | None], list[float]] = {}
        for run in document.runs:
            found.setdefault((slots[run.uuids[0]], classes[run.app]), []).append(run.seconds / 0.02)
        truth = {(slot, cls): speed for slot, speeds in hidden[node].items() for cls, speed in speeds.items()}
        assert {key: median(values) for key, values in found.items()} == pytest.approx(truth, rel=0.01)
    assert len(uuids) == 8


@pytest.mark.slurm("26.05")
def test_a_job_that_runs_under_the_watcher_tells_its_slots_and_steps(minicluster: Minicluster) -> None:
    code = "import time\nfrom pal_slurm.probe import steps\nfor batch in steps(range(11)): time.sleep(0.02)"
    spool = minicluster.dir / "log"
    watch = f'exec "$@" watch --devices fake --spool {spool} --job "$SLURM_JOB_ID" --interval 0.1 -- python3 -c "$CODE"'
    words = ["env", f"CODE={code}", "sh", "-c", watch, "sh", *PROBE]
    minicluster.client("srun", "-w", "n3", "--gres=gpu:g1:1,gpu:g3:1", *words)
    [path] = spool.glob("job-*-n3-*.jsonl")
    part = read_file(path, time.time()).part
    path.unlink()
    assert part is not None and part.last
    assert sorted(device.slot or 0 for device in part.devices) == [1, 3]
    assert sum(steps.count for steps in part.steps) == 10
