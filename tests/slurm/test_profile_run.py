"""palctl profile run on a real Slurm: who is idle is measured, users' jobs are not disturbed, scores find the truth.

The nodes' GPUs are fake devices with hidden speeds; everything else is real: sbatch, the probe, the spool, the store.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.slurm.minicluster import PROJECT, Minicluster, wait_for

pytestmark = pytest.mark.every(2)

PALCTL = Path(sys.executable).parent / "palctl"
WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")  # it ends when these tests are killed
QUICK = "--warm 0 --cool-wait 0"


class Profiled:
    """A cluster with a spool and a pal.yaml of its own."""

    def __init__(self, cluster: Minicluster, directory: Path, rounds: int = 5, run_s: float = 0.2) -> None:
        self.cluster = cluster
        self.spool, self.logs_dir, self.taken = directory / "spool", directory / "logs", directory / "intake" / "taken"
        self.spool.mkdir()
        self.logs_dir.mkdir()
        kernels = " ".join(f"-k fake:{cls},pace=0.05,noise=0.01" for cls in "ABC")
        probe = f"PYTHONPATH={PROJECT} python3 -m pal_slurm.probe bench --devices fake --scope gpu {QUICK}"
        self.config = directory / "pal.yaml"
        self.config.write_text(
            json.dumps(
                {
                    "cluster": {"backend": "cli", "bin_dir": str(cluster.bin)},
                    "state_dir": str(directory),
                    "metrics": {"listen": ""},
                    "profile": {
                        "spool": str(self.spool),
                        "logs": str(self.logs_dir),
                        "minutes": 5,
                        "max_parallel": 8,
                        "command": f"{probe} {kernels} --rounds {rounds} --run {run_s} -o {{spool}}/",
                    },
                }
            )
        )
        self.palctl("db", "upgrade")

    def palctl(self, *words: str, code: int = 0, timeout: float = 240) -> str:
        done = subprocess.run(
            [PALCTL, "--config", self.config, *words], capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == code, f"palctl {words}: {done.returncode}: {done.stderr}{done.stdout}{self.logs()}"
        return done.stdout

    def profile(self, *words: str, code: int = 0) -> dict[str, list[str]]:
        found: dict[str, list[str]] = json.loads(self.palctl("profile", "run", "--json", *words, code=code))
        return found

    @contextmanager
    def profiling(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [*WITH_US, PALCTL, "--config", self.config, "profile", "run", "--json", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def ours(self) -> list[tuple[int, str]]:
        out = self.cluster.client("squeue", "-h", "-n", "pal-profile", "-t", "R", "-o", "%i %N")
        return [(int(line.split()[0]), line.split()[1]) for line in out.splitlines()]

    def scores(self) -> dict[tuple[str, int], dict[str, Any]]:
        rows = json.loads(self.palctl("scores", "--json"))
        return {(row["node"], row["slot"]): row for row in rows}

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace")[-500:] for path in sorted(self.logs_dir.glob("*.out")))

    def truth(self) -> dict[tuple[str, int], dict[str, float]]:
        speeds = json.loads((self.cluster.dir / "speeds.json").read_text())
        return {(node, int(slot[1:])): s for node, slots in speeds.items() for slot, s in slots.items()}


@pytest.fixture
def cluster_of_speeds(make_minicluster: Callable[..., Minicluster]) -> Callable[..., Minicluster]:
    return make_minicluster


def spearman(a: list[float], b: list[float]) -> float:
    first, second = (np.argsort(np.argsort(np.array(values))).astype(np.float64) for values in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


@pytest.mark.slurm("26.05")
def test_scores_of_64_gpus_are_in_the_order_of_the_truth_and_every_outlier_is_named(
    cluster_of_speeds: Callable[..., Minicluster], tmp_path: Path
) -> None:
    work = Profiled(cluster_of_speeds("--nodes", "16", "--gpus", "4", "--speeds-seed", "7"), tmp_path, run_s=0.5)
    assert len(work.profile()["done"]) == 16
    truth, found = work.truth(), work.scores()
    places = sorted(truth)
    assert len(found) == len(places) == 64
    correlation = spearman([truth[p]["A"] for p in places], [found[p]["A"] for p in places])
    named = {(r["class"], r["node"], r["slot"]) for r in json.loads(work.palctl("scores", "--outliers", "--json"))}
    slow = {(cls, *place) for place in places for cls in "ABC" if truth[place][cls] > 1.3}
    print(f"rank correlation with the truth {correlation:.4f}; outliers {len(named)} named, {len(slow)} true")
    assert correlation >= 0.98
    assert {entry for entry in slow if entry[0] == "A"}
    assert named == slow


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_only_idle_nodes_are_measured_and_a_users_job_is_not_touched(minicluster: Minicluster, tmp_path: Path) -> None:
    over = minicluster.dir / "log" / f"over-{tmp_path.name}"
    job = minicluster.submit("-w", "n3", "--gpus=1", wrap=f"while [ ! -e {over} ]; do sleep 0.1; done")
    minicluster.wait_state(job, "RUNNING")
    work = Profiled(minicluster, tmp_path, rounds=3)
    before = minicluster.fields(job)
    found = work.profile("--nodes", "n[1-4]", code=75)
    assert (found["done"], found["busy"]) == (["n1", "n2", "n4"], ["n3"])
    after = minicluster.fields(job)
    assert (after["JobState"], after["NodeList"], after["StartTime"]) == ("RUNNING", "n3", before["StartTime"])
    over.touch()


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_what_is_done_is_not_done_again(minicluster: Minicluster, tmp_path: Path) -> None:
    work = Profiled(minicluster, tmp_path, rounds=1)
    work.profile("--nodes", "n[1-2]")
    first = sorted(path.name for path in (work.taken).iterdir())
    work.profile("--nodes", "n[1-4]")
    second = sorted(path.name for path in (work.taken).iterdir())
    assert len(first) == 2
    assert len(second) == 4
    assert set(first) < set(second)


@pytest.mark.slurm("26.05")
def test_a_run_that_was_killed_is_adopted_by_the_next(minicluster: Minicluster, tmp_path: Path) -> None:
    def every() -> set[int]:
        out = minicluster.client("squeue", "-h", "-t", "all", "-n", "pal-profile", "-o", "%i")
        return {int(number) for number in out.split()}

    work = Profiled(minicluster, tmp_path, rounds=3, run_s=5.0)
    before = every()
    with work.profiling("--nodes", "n[1-2]") as process:
        wait_for(lambda: len(work.ours()) == 2, "both profile jobs run")
        process.send_signal(signal.SIGKILL)
    jobs = {number for number, _ in work.ours()}
    assert len(work.profile("--nodes", "n[1-2]")["done"]) == 2
    assert every() - before == jobs


@pytest.mark.slurm("26.05")
def test_interrupted_it_leaves_no_job_behind(minicluster: Minicluster, tmp_path: Path) -> None:
    work = Profiled(minicluster, tmp_path, rounds=3, run_s=60.0)
    with work.profiling("--nodes", "n[1-2]") as process:
        wait_for(lambda: len(work.ours()) == 2, "both profile jobs run")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    wait_for(lambda: work.ours() == [], "the profile jobs are gone")


@pytest.mark.slurm("26.05")
def test_a_job_that_waits_for_our_node_gets_it(minicluster: Minicluster, tmp_path: Path) -> None:
    work = Profiled(minicluster, tmp_path, rounds=3, run_s=100.0)
    with work.profiling() as process:
        wait_for(lambda: len(work.ours()) == 8, "all nodes are being profiled")
        job = minicluster.submit("--gpus=1", wrap="sleep 60")
        minicluster.wait_state(job, "RUNNING", within=30)
        assert len(work.ours()) >= 6  # one node was wanted, not all
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@pytest.mark.slurm("26.05")
def test_a_card_that_moved_keeps_its_history(make_minicluster: Callable[..., Minicluster], tmp_path: Path) -> None:
    speeds = tmp_path / "speeds.json"
    speeds.write_text(json.dumps({"n3": {"g1": {"A": 1.6, "B": 1.2, "C": 1.0}}}))
    cluster = make_minicluster("--nodes", "8", "--gpus", "4", "--speeds", str(speeds))
    work = Profiled(cluster, tmp_path, rounds=3)
    work.profile()
    before = work.scores()
    moved = str(before["n3", 1]["uuid"])
    (cluster.dir / "cards.json").write_text(json.dumps({"n7": {"g0": moved}, "n3": {"g1": "GPU-a-new-card"}}))
    now_true = json.loads((cluster.dir / "speeds.json").read_text())
    now_true["n7"]["g0"], now_true["n3"]["g1"] = now_true["n3"]["g1"], now_true["n7"]["g0"]
    (cluster.dir / "speeds.json").write_text(json.dumps(now_true))
    work.profile("--again", "--nodes", "n3,n7")
    after = work.scores()
    assert after["n7", 0]["uuid"] == moved
    assert after["n7", 0]["A"] == pytest.approx(1.6, rel=0.03)
    assert after["n3", 1]["A"] == pytest.approx(1.0, rel=0.03)
    assert after["n7", 0]["A.runs"] == 2 * before["n3", 1]["A.runs"]
    assert after["n3", 1]["A.runs"] == before["n3", 1]["A.runs"]


@pytest.mark.slurm(turns=("22.05", "24.11", "26.05"))
def test_outside_its_window_nothing_is_done(minicluster: Minicluster, tmp_path: Path) -> None:
    work = Profiled(minicluster, tmp_path)
    hour = time.localtime().tm_hour
    closed = f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00"
    assert "outside of" in work.palctl("profile", "run", "--window", closed)
    assert list(work.spool.iterdir()) == []


@pytest.mark.slurm("24.11", slow=("22.05", "26.05"))
def test_what_matches_no_node_is_refused_and_not_all_of_nothing(minicluster: Minicluster, tmp_path: Path) -> None:
    work = Profiled(minicluster, tmp_path)
    words: list[str | Path] = [PALCTL, "--config", work.config, "profile", "run"]

    def refused(*more: str) -> str:
        done = subprocess.run([*words, *more], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (65, "")
        return done.stderr

    assert refused("--nodes", "n[1-") == "palctl: --nodes 'n[1-': no list of nodes; write it as n[1-8] or n1,n2\n"
    assert refused("--nodes", "n[1-2],x9") == "palctl: --nodes: x9: no such node with GPUs in the partition\n"
    tree = json.loads(work.config.read_text())
    tree["profile"]["partition"] = "nowhere"
    work.config.write_text(json.dumps(tree))
    assert "partition nowhere has no node with GPUs" in refused()
