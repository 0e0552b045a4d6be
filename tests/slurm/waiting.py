"""Jobs that must not wait for pald: stories on a real Slurm. In: a mini-cluster, a pald. Out: seconds waited.

Each story is told with pald and without it (`enabled = no` in pal_lua.conf) on the same cluster, one right after the
other, so that what else the machine does meets both.
"""

from __future__ import annotations

import random
import re
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings

CLUSTER = ("--nodes", "4", "--gpus", "4", "--users", "alice,bob")
SHIPPED = {"cycle.interval_s": 5, "budget.edits_per_s": 20, "budget.read_share": 0.05, "lease.let_through": True}
LONG_S = 240.0
APP = "--comment=app:resnet"
# Programs that look up the cluster's own users.
WORLD = 'mount --bind "$0/passwd" /etc/passwd; mount --bind "$0/group" /etc/group; exec "$@"'


class Pair(NamedTuple):
    stock_s: float
    ours_s: float

    def __str__(self) -> str:
        return f"{self.ours_s:.2f} s against {self.stock_s:.2f} s"


class Case(NamedTuple):
    name: str
    story: Callable[[Minicluster], float]
    teach: Callable[[Minicluster], float] | None  # runs with pald before it is measured
    times: float  # at most so many times what stock takes,
    plus_s: float  # or so much more

    def kept(self, pair: Pair) -> bool:
        return pair.ours_s <= max(self.times * pair.stock_s, pair.stock_s + self.plus_s)


def started_pald(cluster: Minicluster, home: Path) -> Pald:
    """With the defaults of pal.yaml and scores from 0.9 to 1.5."""
    pald = Pald(cluster, home, SHIPPED)
    pald.world = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", WORLD, str(cluster.etc)]
    pald.start()
    draw = random.Random(4)
    gpus = [f"{node}:{slot}" for node in cluster.nodes for slot in range(4)]
    pald.scores({gpu: draw.choice((0.9, 0.95, 1.0, 1.0, 1.1, 1.5)) for gpu in gpus})
    pald.wait_cycle()
    return pald


def told(cluster: Minicluster, case: Case, *, ours_first: bool = False) -> Pair:
    """With pald running: once without its leases and once with them."""
    took = {}
    for enabled in ("yes", "no") if ours_first else ("no", "yes"):
        lua_settings(cluster, enabled=enabled)
        took[enabled] = case.story(cluster)
        quiet(cluster)
    return Pair(took["no"], took["yes"])


def taught(cluster: Minicluster, case: Case) -> None:
    lua_settings(cluster, enabled="yes")
    if case.teach is not None:
        case.teach(cluster)
        quiet(cluster)


def quiet(cluster: Minicluster) -> None:
    """Nothing runs or waits."""
    for job in set(cluster.client("squeue", "-h", "-o", "%F").split()):
        cluster.run("scancel", job)
    emptied(cluster)


def emptied(cluster: Minicluster) -> None:
    wait_for(lambda: not cluster.client("squeue", "-h", "-o", "%i").strip(), "the queue is empty", LONG_S, 0.1)


def waits(cluster: Minicluster, *options: str) -> float:
    """Of a job of bob's, from before its sbatch until its script runs."""
    stamp = cluster.dir / "run" / f"stamp{time.monotonic_ns()}"
    stamp.touch()
    stamp.chmod(0o666)
    began = time.time()
    cluster.submit(*options, wrap=f"date +%s.%N > {stamp}; sleep 1", user="bob")
    wait_for(lambda: bool(stamp.read_text().strip()), f"{options} starts", LONG_S, 0.1)
    return float(stamp.read_text()) - began


def beside_an_array(cluster: Minicluster, task_s: int = 1) -> float:
    cluster.submit("--array=1-200%7", "--gres=gpu:1", "-t", "10", APP, wrap=f"sleep {task_s}", user="alice")
    time.sleep(3)
    return waits(cluster, "--gres=gpu:4", "-t", "1")


def beside_long_tasks(cluster: Minicluster) -> float:
    """Tasks of 20 s, wherever they are put; long enough after the first of them began."""
    cluster.submit("--array=1-1000%7", "--gres=gpu:1", "-t", "10", APP, wrap="sleep 20", user="alice")
    time.sleep(25)
    return waits(cluster, "--gres=gpu:4", "-t", "1")


def wide_jobs(cluster: Minicluster) -> float:
    """So many beside such tasks that they are usual."""
    return max(beside_long_tasks(cluster), *(waits(cluster, "--gres=gpu:4", "-t", "1") for _ in range(4)))


def behind_a_stream(cluster: Minicluster) -> float:
    """16 jobs at once, then one every two seconds for as long as bob waits."""
    one = f"sbatch -Q -o /dev/null --gres=gpu:2 -t 60 {APP} --wrap 'sleep 20'"
    script = f"for i in $(seq 16); do {one}; done; while sleep 2; do {one}; done"
    stream = subprocess.Popen([cluster.bin / "in-cluster", "--user", "alice", "sh", "-c", script], cwd="/tmp")
    try:
        time.sleep(3)
        return waits(cluster, "-N4", "--gres=gpu:4", "-t", "60")
    finally:
        stream.kill()
        stream.wait()


def seconds(cluster: Minicluster, many: int) -> float:
    """Until so many one-second jobs of alice are over."""
    began = time.monotonic()
    cluster.submit_many(many, "--gres=gpu:1", APP, wrap="sleep 1", user="alice")
    emptied(cluster)
    return time.monotonic() - began


def hostnames(cluster: Minicluster) -> float:
    """So many that their kind is known to be short; until job_submit.lua is told so, and believes it."""
    began, alive = time.monotonic(), cluster.dir / "run" / "pald.alive"
    cluster.submit_many(40, "--gres=gpu:1", wrap="hostname", user="alice")
    emptied(cluster)
    last = int(time.time())
    found: list[str] = []

    def passes() -> bool:
        found[:] = re.findall(r"\npass brief (\d+) ", alive.read_text())
        return bool(found) and int(found[0]) >= last + 3

    wait_for(passes, "pald lets such jobs pass")
    return time.monotonic() - began


def sruns(cluster: Minicluster, many: int = 9) -> float:
    """The median of some, each on an idle cluster."""
    took = []
    for i in range(many):
        emptied(cluster)
        time.sleep(0.3 + 0.11 * (i % 9))  # out of step with slurmctld's own second
        began = time.monotonic()
        cluster.client("srun", "--gres=gpu:1", "hostname", user="alice")
        took.append(time.monotonic() - began)
    return statistics.median(took)


CASES = {
    case.name: case
    for case in (
        Case("array", beside_an_array, None, 1.1, 5.0),
        Case("array-again", beside_an_array, beside_an_array, 1.1, 5.0),
        Case("array-of-20s", lambda cluster: beside_an_array(cluster, 20), None, 1.1, 5.0),
        Case("usual-wide", beside_long_tasks, wide_jobs, 1.1, 5.0),
        Case("stream", behind_a_stream, None, 1.1, 5.0),
        Case("seconds", lambda cluster: seconds(cluster, 200), lambda cluster: seconds(cluster, 50), 1.1, 0.0),
        Case("srun", sruns, hostnames, 2.0, 0.0),
    )
}
