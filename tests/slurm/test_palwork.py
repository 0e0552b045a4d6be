"""palwork on real clusters: a slow GPU makes the job slow, by the factor that speeds.json says."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import pytest

from tests.slurm.minicluster import Minicluster, wait_for


class Report(TypedDict):
    """The line that palwork prints."""

    node: str
    gpus: list[str]
    span: str
    steps: int
    seconds: float
    true_step_time: float


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    """n1.g1 is twice as slow for class A, n3.g0 three times for class B."""
    path = tmp_path / "speeds.json"
    path.write_text(json.dumps({"n1": {"g1": {"A": 2.0}}, "n3": {"g0": {"B": 3.0}}}))
    return path


def work(cluster: Minicluster, *options: str, words: str = "") -> list[Report]:
    line = f"palwork --steps 4 --base 0.05 {words}".split()
    out = cluster.client("srun", *options, *line)
    return sorted((json.loads(text) for text in out.splitlines()), key=lambda report: report["node"])


def handles_sigterm(words: str) -> bool:
    """Is there a process with these words in its command line that has a handler for SIGTERM?"""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and words in (entry / "cmdline").read_text():
                caught = (entry / "status").read_text().split("SigCgt:")[1].split()[0]
                return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)
        except (OSError, IndexError):
            continue
    return False


def test_the_slowest_gpu_sets_the_pace(make_minicluster: Callable[..., Minicluster], speeds: Path) -> None:
    cluster = make_minicluster("--nodes", "3", "--rack-size", "2", "--speeds", str(speeds))
    (one,) = work(cluster, "-w", "n1", "--gres=gpu:1")
    assert (one["gpus"], one["span"], one["true_step_time"]) == (["g0"], "gpu", 0.05)
    (two,) = work(cluster, "-w", "n1", "--gres=gpu:2", words="--comm-node 1.5")
    assert (two["gpus"], two["span"]) == (["g0", "g1"], "node")
    assert two["true_step_time"] == pytest.approx(0.05 * 2.0 * 1.5)
    # A sleep never ends early: the steps really took that long.
    assert two["seconds"] >= 4 * two["true_step_time"]
    (other,) = work(cluster, "-w", "n1", "--gres=gpu:2", words="--class C")
    assert other["true_step_time"] == pytest.approx(0.05)


def test_the_span_of_a_job_over_racks_counts(make_minicluster: Callable[..., Minicluster], speeds: Path) -> None:
    cluster = make_minicluster("--nodes", "3", "--rack-size", "2", "--speeds", str(speeds))
    first, second = work(cluster, "-w", "n1,n2", "-N2", "--gres=gpu:1", words="--comm-rack 1.2")
    assert (first["node"], second["node"], first["span"]) == ("n1", "n2", "rack")
    assert first["true_step_time"] == pytest.approx(0.05 * 1.2)
    near, far = work(cluster, "-w", "n2,n3", "-N2", "--gres=gpu:1", words="--class B --comm-cluster 1.3")
    assert near["span"] == far["span"] == "cluster"
    assert near["true_step_time"] == pytest.approx(0.05 * 1.3)
    assert far["true_step_time"] == pytest.approx(0.05 * 3.0 * 1.3)


def test_a_terminated_palwork_tells_how_far_it_got(minicluster: Minicluster) -> None:
    out = minicluster.dir / "run" / "palwork.out"
    job = minicluster.submit("--gres=gpu:1", f"--output={out}", wrap="exec palwork --steps 1000 --base 0.05")
    minicluster.wait_state(job, "RUNNING")
    wait_for(lambda: handles_sigterm("palwork\0--steps\x001000"), "palwork is at work")
    minicluster.client("scancel", "--signal=TERM", "--batch", str(job))
    minicluster.wait_state(job, "FAILED", "CANCELLED")
    report: Report = json.loads(next(line for line in out.read_text().splitlines() if line.startswith("{")))
    assert 0 <= report["steps"] < 1000


def test_without_gpus_it_runs_at_the_base_pace(minicluster: Minicluster) -> None:
    (report,) = work(minicluster)
    assert (report["gpus"], report["true_step_time"]) == ([], 0.05)
