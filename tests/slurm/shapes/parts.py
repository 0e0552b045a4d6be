"""Jobs that say pal:share, while others of their user have parts of all GPUs. In: rows. Out: what each got there.

Each row has a node of two GPUs to itself, on each of which a job sits that may share it. What can't be put beside one
of them (`alone`) waits until they are gone, as it would wait for anybody's GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald
from tests.slurm.shapes.compare import differences
from tests.slurm.shapes.got import Got, Task
from tests.slurm.shapes.options import knows, long_options
from tests.slurm.shapes.rows import Row, read_rows
from tests.slurm.shapes.run import USER, Ground, run_all

SHARES = "--comment=app:sweep pal:share"
ONE_NODE = Ground(
    lambda row, _: (row + 1,),
    lambda rows: ("--nodes", str(rows), "--gpus", "2", "--shards", "2", "--set", "Licenses=matlab:1000"),
    (SHARES,),
)
STUCK = 300  # looks; a failure, and the others go on
STEPS = ("", "-n1", "-n1 --overlap", "-n1 --exact", "-n1 --gres=none", "-n1 --exclusive --mem=50")
TABLE = """
## How one GPU is asked for
--gres=gpu:1 -> beside
--gres=gpu -> beside
--gpus=1 -> beside
--gpus-per-node=1 -N1 -> beside
-n1 --gpus-per-task=1 -> beside
-n1 -c2 --gpus-per-task=1 -> beside
-n1 --tres-per-task=cpu=2,gres/gpu=1 -> beside
SBATCH_GRES=gpu:1 sbatch -n1 -> beside
SBATCH_GPUS=1 sbatch -n1 -> beside
SBATCH_GPUS_PER_NODE=1 sbatch -n1 -> beside
SBATCH_GPUS_PER_TASK=1 sbatch -n1 -> beside
#SBATCH --gpus=1 -n2 -N1 -> beside
## CPUs, memory, tasks
--gres=gpu:1 -c3 --mem=700 -> beside
--gpus=1 --mem-per-cpu=50 -n2 -N1 -> beside
--gres=gpu:1 -n2 -N1 --ntasks-per-node=2 -> beside
--gres=gpu:1 -N1 -n2 -B 1:2:1 -> beside
--gres=gpu:1 --hint=nomultithread -N1 -n2 -> beside
--gres=gpu:1 --threads-per-core=1 -c 2 -> beside
--gres=gpu:1 -N1 -n3 -O -> beside
--gres=gpu:1 --cpu-freq=low -> beside
--gres=gpu:1 --mem=0 -> alone
--gres=gpu:1 --exclusive -> alone
--gres=gpu:1 --core-spec=1 -> beside
--gpus=1 --mem-per-gpu=100 -> alone
--gpus=1 --cpus-per-gpu=2 -> alone
-n2 -N1 --gpus-per-task=1 -> alone
--gpus=1 --ntasks-per-gpu=2 -> alone
-n1 --gpus=1 --ntasks-per-gpu=1 -> alone
## Binding
--gres=gpu:1 --gpu-bind=none -> beside
--gpus=1 --gpu-bind=single:1 -> beside
--gpus=1 --gpu-bind=closest -> beside
--gpus=1 --gpu-bind=per_task:1 -> beside
--gpus=1 --gpu-bind=map_gpu:0 -> beside
--gpus=1 --tres-bind=gres/gpu:single:1 -> beside
SBATCH_GPU_BIND=single:1 sbatch --gpus=1 -> beside
--gres=gpu:1 --gpu-freq=low -> alone
--gres=gpu:1 --gres-flags=enforce-binding -> beside but cpus
--gres=gpu:1 --gres-flags=disable-binding -> beside
--gres=gpu:1 --gres-flags=one-task-per-sharing -> alone
## When, and what becomes of it
--gres=gpu:1 --export=NIL -> beside
--gres=gpu:1 --export=ALL,MINE=1 -> beside
--gres=gpu:1 --wait -> beside
--gres=gpu:1 --array=0-1 -> beside
--gres=gpu:1 --array=0-3%1 -> alone
--gres=gpu:1 : --gres=gpu:1 => ; --het-group=1 -> alone
--gres=gpu:1 --dependency=afterok:{before} -> beside
--gres=gpu:1 -d singleton -> beside
--gres=gpu:1 --signal=B:USR1@30 -t 3 -> beside
--gres=gpu:1 -t 20 --time-min=5 -> beside
--gres=gpu:1 --no-requeue -> beside
--gres=gpu:1 --begin=now+4 -> beside
--gres=gpu:1 --hold -> beside
--gres=gpu:1 --nice=100 -> beside
--gres=gpu:1 --licenses=matlab:1 -> beside
--gres=gpu:1 -C a100 -> beside
--gres=gpu:1 --oversubscribe -> alone
--gres=gpu:1 --contiguous --no-kill --wait-all-nodes=1 -> beside
## Steps that ask for the GPU themselves
--gres=gpu:1 -N1 -n2 => --gres=gpu:1; -n1 --gres=gpu:1; -n1 --gres=gpu -> beside
--gpus=1 -n1 => --gpus=1; -n1 --gpus-per-task=1; -n1 --gpus-per-node=1; -n1 --tres-per-task=gres/gpu:1 -> beside
--gres=gpu:1 -N1 -n2 => --gpu-bind=single:1; --gpu-bind=none; -n1 --gpus=1 --overlap; -n1 --gpus=1 --exact -> beside
--gres=gpu:1 -N1 -n2 => --gres=gpu:2; --gpus=2; --gpus-per-task=1; --gres=gpu:a100:1 -> beside
--gres=gpu:1 -N1 -n2 -c2 => -c1 -n4; --cpu-bind=cores; --kill-on-bad-exit=1; --jobid=$SLURM_JOB_ID -n1 -> beside
--gres=gpu:1 -N1 -n2 => --multi-prog {prog}; -m cyclic; --export=NIL -n1; --wait=5 -n1; --mpi=none -> beside
"""
# --gres-flags=enforce-binding: Slurm gives all of a node's CPUs that nobody has, and here somebody has some.
_CPUS = re.compile(r"^nodes:|(NumCPUs|CPUS_ON_NODE|CPUS_PER_NODE|TASKS_PER_NODE):")
# What the task prolog says and takes away, so that steps ask for what the job has.
_OF_PARTS = re.compile(
    r"(SLURM|SBATCH)_(GRES|GPUS(_PER_(NODE|TASK|SOCKET))?|SHARDS_ON_NODE|GPU_BIND|TRES_BIND|TRES_PER_TASK)"
    r"|PAL_SHARDS_OF|SLURMD_TRES_BIND"
)


def rows_of_parts(release: str) -> list[Row]:
    rows = read_rows(TABLE, ("beside", "alone"))
    known = [row for row in rows if knows(release, row.command, long_options(row.words))]
    return [row if row.steps else replace(row, steps=STEPS) for row in known]


def differs(row: Row, alone: Got, beside: Got, *, shared: bool) -> list[str]:
    """But for the words in which the GPU is asked for, where it is asked for as a part."""
    if not shared:
        return list(differences(alone, beside))
    found = differences(_without(alone), _without(beside))
    return [said for said in found if row.exception != "cpus" or not _CPUS.search(said)]


def _without(got: Got) -> Got:
    facts = tuple({**record, "ReqTRES": "", "AllocTRES": ""} for record in got.facts)
    steps = {name: (code, _tasks(tasks)) for name, (code, tasks) in got.steps.items()}
    return replace(got, facts=facts, batch=_tasks(got.batch), steps=steps)


def _tasks(tasks: Sequence[Task]) -> tuple[Task, ...]:
    return tuple({key: value for key, value in task.items() if not _OF_PARTS.fullmatch(key)} for task in tasks)


class Residents:
    """A job on each GPU of each row, which may share it."""

    def __init__(self, cluster: Minicluster, rows: Sequence[Row]) -> None:
        self.cluster, self.rows = cluster, rows
        words = ("sbatch", "--parsable", "-o", "/dev/null", "-J", "resident", "--gres=gpu:1", "--mem=100", "-t", "60")
        self.jobs: dict[str, list[int]] = {}
        self._waiting: set[str] = set()
        self._same = 0  # how often the same waited, one look after the other
        for i, row in enumerate(rows):
            line = (*words, SHARES, "-p", f"p{i}", "--wrap", "sleep 3000")
            self.jobs[row.name] = [int(cluster.client(*line, user=USER)) for _ in range(2)]
        wait_for(lambda: self._states() == {"RUNNING"}, "somebody sits on every GPU", every=0.5)

    @property
    def all(self) -> list[int]:
        return [job for jobs in self.jobs.values() for job in jobs]

    def _states(self) -> set[str]:
        return set(self.cluster.client("squeue", "-h", "-n", "resident", "-o", "%T").split())

    def make_way(self) -> None:
        """When all who can be put beside one of them have ended, or none of those comes to run any more."""
        queue = [line.split() for line in self.cluster.client("squeue", "-h", "-o", "%P %j").splitlines()]
        waiting = {partition for partition, name in queue if name not in ("resident", "before")}
        places = {f"p{i}": row for i, row in enumerate(self.rows)}
        self._same = self._same + 1 if waiting == self._waiting else 0
        self._waiting = waiting
        if self._same > STUCK or all(places[partition].placed == "alone" for partition in waiting):
            gone = [job for partition in waiting for job in self.jobs.pop(places[partition].name, [])]
            if gone:
                self.cluster.client("scancel", *map(str, gone))

    def gone(self) -> None:
        self.cluster.client("scancel", "-n", "resident")
        wait_for(lambda: not self._states(), "the residents are gone")


@contextmanager
def residents(cluster: Minicluster, rows: Sequence[Row]) -> Iterator[Residents]:
    found = Residents(cluster, rows)
    try:
        yield found
    finally:
        found.gone()


def beside_others(cluster: Minicluster, rows: Sequence[Row], home: Path, pald: Pald) -> Mapping[str, Got]:
    with residents(cluster, rows) as there:
        every = there.all
        return run_all(cluster, rows, home, ONE_NODE, every, there.make_way)
