"""The ugliest sbatch lines, and what a job of each gets. In: a cluster of a partition per line. Out: Got per line.

All lines run at once, each on four nodes of its own, so that no job sees another: what differs with pald is pald's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.slurm.minicluster import Minicluster, wait_for

NODES = 4  # of each partition
# How each is placed, where GPUs can be asked for by slot; where they can't (22.05), BY_SLOT are placed by nodes too.
BY_SLOT = (
    "--gres=gpu:1 --cpus-per-gpu=4", "--gpus=1 --cpus-per-gpu=4 -n2", "-N2 --gpus-per-node=1 --cpus-per-gpu=2",
    "-N2 --gpus=6", "-N1-3 --gpus=6", "-N1-3 -n6 --gpus=6", "-N2 -n3 --gpus=4", "--gpus=3", "-N4 --gpus=4",
    "-N1-2 --gres=gpu:2", "-N1-2 -n4 --gpus=4 --use-min-nodes",
    "-N2 --ntasks-per-node=2 --gpus-per-node=2", "-N1 -n4 --gres=gpu:2 -c 2",
    "-n8 --gpus=2 -c 2", "--gres=gpu:1 -c 20 -n3 -N1-3", "--gres=gpu:1 --mem-per-gpu=1000", "--gpus=2 --mem=2000 -n2",
    "-N2 --gpus-per-node=2 --mem-per-gpu=500", "--gpus=2 --mem-per-cpu=300 -n2", "--gres=gpu:1 --mincpus=6",
    "--gres=gpu:2 --gres-flags=enforce-binding", "--gpus=2 -n2 --distribution=cyclic", "--gpus=2 -O -n3",
    "--gres=gpu:1 -n2 --hint=nomultithread", "--gres=gpu:1 --contiguous -N2", "--gpus=2 --switches=1",
    "--gres=gpu:2 -x {second}", "--gres=gpu:1 -C rack1|a100", "--array=0-1 --gres=gpu:1 -n3",
    "-B 1:2:1 --gres=gpu:1 -n2", "--gpus=2 --threads-per-core=1 -c 2",
    "--gres=gpu:1 --ntasks-per-socket=1 -n2", "--gpus=2 --gpu-bind=single:1",
)  # fmt: skip
BY_NODES = (
    "--gpus=4 --cpus-per-gpu=4", "--gres=gpu:2 --cpus-per-gpu=3", "--gpus=2 --cpus-per-gpu=2 --mem-per-gpu=1000",
    "--array=0-1 --gpus=2 --cpus-per-gpu=2", "-n2 --gpus-per-task=1", "-n4 --gpus-per-task=1 -N2",
    "-n3 --gpus-per-task=1 -c 2", "-N2 --ntasks-per-node=2 --gpus-per-task=1 -c 3",
    "-n2 --gpus-per-task=1 --cpus-per-gpu=3", "--array=0-1 -n2 --gpus-per-task=1", "-n2 -N2 --gpus-per-task=2",
    "-N1-4 -n4 --ntasks-per-node=1 --gpus-per-task=1",
)  # fmt: skip
PLAIN = (
    "--gpus=8 --gpus-per-node=4", "-N2 --gpus=8 --gpus-per-node=4", "--gpus=4 -n2 --gpus-per-task=2",
    "--gpus-per-node=4 -n2 --gpus-per-task=2", "--gpus-per-socket=1 --sockets-per-node=2 -N1", "--gpus=5",
    "--gres=gpu:1 --exclusive", "--gres=gpu:g1:1", "--gres=gpu:g1:1,gpu:g2:1", "--gpus=g2:1",
    "--gres=gpu:g1:1 -w {second}", "-N3 --gres=gpu:1 -w {second}", "--gpus=2 -c 20 -n3",
)  # fmt: skip
NOT_LEASED = (
    "--gpus=4 --ntasks-per-gpu=1", "-N2 --gpus-per-node=2 --ntasks-per-gpu=1", "-n4 --gpus=2 --ntasks-per-gpu=2",
    "-n4 --ntasks-per-gpu=2", "--gres=gpu:0",
)  # fmt: skip
NEWER = ("--tres-per-task=cpu=2,gres/gpu=1 -n3", "--tres-per-task=gres/gpu:1 -n2 -N2")  # not on 22.05; by nodes
# slurmctld 24.11.5 itself dies of these, with and without pald.
NOT_ON_24_11 = ("-N2 --gpus=2 --spread-job", "-n4 --gpus=4 --spread-job")  # by slot
# Split evenly over the nodes, where Slurm alone fills one after the other (docs/placement.md): the same in all.
EVEN = frozenset({"-N2 --gpus=6", "-N1-3 --gpus=6", "-N1-3 -n6 --gpus=6", "-N2 -n3 --gpus=4"})
_PER_NODE = frozenset({"GPUS_ON_NODE", "CPUS_ON_NODE", "JOB_CPUS_PER_NODE", "TASKS_PER_NODE"})

_SCRIPT = r"""#!/bin/sh
o=OUT/$SLURM_JOB_ID
gpus='echo $1 $(echo $CUDA_VISIBLE_DEVICES | tr , "\n" | grep -c .) $SLURM_STEP_NUM_NODES $SLURM_CPUS_PER_TASK'
env | grep ^SLURM_ > $o.env
scontrol show job -d $SLURM_JOB_ID > $o.job
timeout 20 srun sh -c "$gpus" - all > $o.step 2> $o.err; echo "rc $?" >> $o.step
timeout 20 srun -n1 --gres=gpu:1 sh -c "$gpus" - one >> $o.step 2>> $o.err; echo "rc $?" >> $o.step
two() { timeout 20 srun -n1 -N1 --exact sh -c 'echo $CUDA_VISIBLE_DEVICES; sleep 0.5' 2>> $o.err; }
(two & two; wait) > $o.two
mv $o.two $o.done
"""
_ENV = """
    NTASKS NPROCS NNODES JOB_NUM_NODES GPUS GPUS_PER_NODE GPUS_PER_TASK GPUS_PER_SOCKET GPUS_ON_NODE CPUS_PER_GPU
    TRES_PER_TASK CPUS_PER_TASK NTASKS_PER_NODE NTASKS_PER_GPU TASKS_PER_NODE JOB_CPUS_PER_NODE CPUS_ON_NODE
    MEM_PER_NODE MEM_PER_CPU MEM_PER_GPU DISTRIBUTION NTASKS_PER_SOCKET NTASKS_PER_CORE OVERCOMMIT
""".split()  # noqa: SIM905


@dataclass(frozen=True)
class Got:
    """What one line came to. Names of nodes and devices are left out: these are what pald is there to choose."""

    refused: str = ""  # sbatch's own words
    facts: Mapping[str, str] = field(default_factory=dict)  # tasks, CPUs, memory ...
    nodes: tuple[tuple[int, int, int], ...] = ()  # (GPUs, CPUs, MB) on each, sorted
    env: Mapping[str, str] = field(default_factory=dict)  # of the batch script
    steps: tuple[str, ...] = ()  # what srun inside it gave: GPUs, nodes and CPUs of each task
    two: tuple[int, ...] = ()  # GPUs of two steps at once, and how many sets of devices they had

    def apart_from_the_split(self) -> Got:
        total = tuple(map(sum, zip(*self.nodes, strict=True)))
        env = {key: value for key, value in self.env.items() if key not in _PER_NODE}
        return Got(self.refused, self.facts, ((total[0], total[1], len(self.nodes)),), env, (self.steps[-1],))


def lines_for(release: str) -> dict[str, str]:
    """Line -> how it is placed."""
    found = dict.fromkeys(BY_SLOT, "slots") | dict.fromkeys(BY_NODES, "nodes") | dict.fromkeys(PLAIN, "plain")
    found |= dict.fromkeys(NOT_LEASED, "")
    if release != "22.05":
        found |= dict.fromkeys(NEWER, "nodes")
    if release != "24.11":
        found |= dict.fromkeys(NOT_ON_24_11, "slots")
    return found


def partitions(lines: Iterable[str]) -> str:
    """For --partitions of the mini-cluster."""
    return ",".join(f"p{i}=n[{NODES * i + 1}-{NODES * (i + 1)}]" for i, _ in enumerate(lines))


def run_all(cluster: Minicluster, lines: Iterable[str], home: Path) -> tuple[dict[str, int], dict[str, Got]]:
    """Each line's job (not for those that sbatch refused), and what it got."""
    home.mkdir()
    home.chmod(0o777)
    jobs: dict[str, int] = {}
    got: dict[str, Got] = {}
    for i, line in enumerate(lines):
        words = line.format(second=f"n{NODES * i + 2}").split()
        options = ("--parsable", "-o", "/dev/null", "-t", "30", "-p", f"p{i}", *words)
        done = cluster.run("sbatch", *options, stdin=_SCRIPT.replace("OUT", str(home)))
        if done.returncode == 0:
            jobs[line] = int(done.stdout)
        else:
            got[line] = Got(refused=done.stderr.splitlines()[-1])
    ends: set[str] = set()

    def all_done() -> bool:
        ends.update(line for line, job in jobs.items() if (home / f"{job}.done").exists())
        return len(ends) == len(jobs) and not cluster.client("squeue", "-h", "-o", "%i").strip()

    try:
        wait_for(all_done, f"{cluster.release}: all lines have run", 120)
    except AssertionError as late:
        left = sorted(jobs.keys() - ends)
        raise AssertionError(f"{late}: not {left}: {cluster.client('squeue', '-h', '-o', '%i %P %T %r')}") from late
    return jobs, got | {line: _look(home, job) for line, job in jobs.items()}


def _look(home: Path, job: int) -> Got:
    def text(kind: str) -> str:
        return (home / f"{job}.{kind}").read_text()

    record = text("job")
    fields = dict(re.findall(r"(?:^|\s)(NumNodes|NumCPUs|NumTasks|CPUs/Task|AllocTRES)=(\S+)", record))
    nodes: list[tuple[int, int, int]] = []
    for names, cpus, mem, gres in re.findall(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)", record):
        gpus = sum(map(int, re.findall(r"gpu(?::[^:(,]+)?:(\d+)", gres)))
        inside = re.search(r"\[(.*)\]", names)
        nodes += [(gpus, _count(cpus), int(mem))] * (_count(inside[1]) if inside else 1)
    env = dict(line.split("=", 1) for line in text("env").splitlines() if "=" in line)
    two = [line.split(",") for line in text("done").splitlines()]
    return Got(
        facts=fields,
        nodes=tuple(sorted(nodes)),
        env={name: env[f"SLURM_{name}"] for name in _ENV if f"SLURM_{name}" in env},
        steps=tuple(sorted(text("step").splitlines())),
        two=(*map(len, two), len(set(map(tuple, two)))),
    )


def _count(numbers: str) -> int:
    """`0-2,5` are 4."""
    found = (part.partition("-")[::2] for part in numbers.split(","))
    return sum(int(high or low) - int(low) + 1 for low, high in found)
