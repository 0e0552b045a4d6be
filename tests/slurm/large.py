"""A mini-cluster as large as the largest sites. In: nodes, jobs. Out: it is full, and jobs wait; what it was asked.

Nodes run nothing (`minicluster up --hollow`); jobs that hold GPUs have no process.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.slurm.minicluster import Minicluster
from tests.slurm.pald import Pald
from tests.slurm.submissions import Ask

APPS = ("resnet", "bert", "gpt", "dlrm", "vgg19", "lstm", "pagerank", "unet")
HELD = "i=0; while [ $i -lt %d ]; do salloc --no-shell -Q -N %d --gpus-per-node=3 -t 1000; i=$((i+1)); done"


def hold(cluster: Minicluster, nodes: int) -> None:
    """Jobs that run without a process, on three GPUs of each node; the real nodes are not wanted."""
    cluster.client("scontrol", "update", "nodename=n[1-2]", "state=drain", "reason=size")
    cluster.client("sh", "-c", HELD % (20, nodes // 20), timeout=3600)


def scores(pald: Pald, cluster: Minicluster, nodes: int) -> None:
    """Every GPU has one, per class."""
    draw = random.Random(1)
    table = cluster.dir / "run" / "scores.csv"
    rows = (
        f"h{i},{slot},{model},{name},{min(2.0, 1 + abs(draw.gauss(0, 0.08))):.3f}"
        for i in range(1, nodes + 1) for slot in range(4) for model in ("a100",) for name in "ABC"
    )  # fmt: skip
    table.write_text("\n".join(["node,slot,model,class,score", *rows]) + "\n")
    pald.palctl("db", "upgrade")
    pald.palctl("scores", "import", str(table))


def asked(pending: int) -> list[Ask]:
    """Jobs that fit on no node as long as those that stay hold three of four GPUs."""
    draw = random.Random(2)
    return [(draw.choice((2, 3, 4)), draw.randint(10, 900), draw.choice(APPS)) for _ in range(pending)]


@contextmanager
def few_nodes(cluster: Minicluster, nodes: int) -> Iterator[None]:
    """slurmctld looks at each node of a job's partition when it takes the job: at 10,000 of them, 20 to 180 ms."""
    cluster.client("scontrol", "update", "partitionname=gpu", "nodes=h[1-20]")
    yield
    cluster.client("scontrol", "update", "partitionname=gpu", f"nodes=n[1-2],h[1-{nodes}]", timeout=120)


def spent(cluster: Minicluster) -> dict[str, tuple[int, int]]:
    """How often slurmctld was sent each message, and its microseconds: only pald asks and edits here."""
    by_type = cluster.client("sdiag", timeout=60).partition("statistics by message type")[2]
    lines = by_type.partition("statistics by user")[0].splitlines()
    found = (re.match(r"\s+(REQUEST\w+)\s.*count:(\d+)\s.*total_time:(\d+)", line) for line in lines)
    return {m[1]: (int(m[2]), int(m[3])) for m in found if m}
