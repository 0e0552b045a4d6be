"""The shapes of jobs that are compared with and without pald. Out: `rows_for(release)`.

One row a line, under a heading of docs/shapes.md: the command's options (sbatch, if no other is named; what stands
before it is its environment; `#SBATCH` puts the options into the script), behind `=>` what its script runs with srun
instead of the usual, behind `->` how pald has to place it: by `slots`, by `nodes`, `plain`, `none` (not leased).
Where slots can't be asked for (22.05) those are placed by nodes. Behind `only` the releases, where the options that a
release knows do not say it; behind `but` the name of an exception of compare.py.

{part}: its partition, {also}: another with the same nodes, {first} {second} {third}: nodes of it, {rack}: their rack,
{before}: a job that ran there, {resv}: a reservation of the first two, {file}: a file that names the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tests.slurm.shapes.options import RELEASES, knows, long_options
from tests.slurm.shapes.pairs import combinations

TABLE = """
## How many GPUs, and how
--gres=gpu:1 -> slots
--gres=gpu -> slots
--gres=gpu:4 -> slots
--gpus=1 -> slots
--gpus=3 -> slots
--gpus=5 -> plain
--gpus-per-node=3 -> slots
-N2 --gpus-per-node=4 -> slots
-n2 --gpus-per-task=1 -> nodes
-n4 --gpus-per-task=1 -N2 -> nodes
-n2 -N2 --gpus-per-task=2 -> nodes
-N1-4 -n4 --ntasks-per-node=1 --gpus-per-task=1 -> nodes
--array=0-1 -n2 --gpus-per-task=1 -> nodes
--gpus-per-socket=1 --sockets-per-node=2 -N1 -> plain
-N2 --gpus=6 -> slots but split
-N1-3 --gpus=6 -> slots but split
-N1-3 -n6 --gpus=6 -> slots but split
-N2 -n3 --gpus=4 -> slots but split
-N4 --gpus=4 -> slots
-N1-2 --gres=gpu:2 -> slots
-N1-2 -n4 --gpus=4 --use-min-nodes -> slots
-N2 --ntasks-per-node=2 --gpus-per-node=2 -> slots
--gpus=8 --gpus-per-node=4 -> plain
-N2 --gpus=8 --gpus-per-node=4 -> plain
--gpus=4 -n2 --gpus-per-task=2 -> plain
--gpus-per-node=4 -n2 --gpus-per-task=2 -> plain
--gres=gpu:0 -> none
--gres=none -> none
-n4 -c 2 -> none
--gpus=4 --ntasks-per-gpu=1 -> none
-N2 --gpus-per-node=2 --ntasks-per-gpu=1 -> none
-n4 --gpus=2 --ntasks-per-gpu=2 -> none
-n4 --ntasks-per-gpu=2 -> none
--gres=gpu:g1:1 -> plain
--gres=gpu:g1:1,gpu:g2:1 -> plain
--gpus=g2:1 -> plain
--gres=gpu:a100:2 -> slots but model
--gpus=a100:1 -C {rack} -> slots but model
--tres-per-task=cpu=2,gres/gpu=1 -n3 -> nodes
--tres-per-task=gres/gpu:1 -n2 -N2 -> nodes
--tres-per-task=cpu=2 -n2 --gpus=2 -> slots
## CPUs and tasks
--gres=gpu:1 --cpus-per-gpu=4 -> slots
--gpus=1 --cpus-per-gpu=4 -n2 -> slots
-N2 --gpus-per-node=1 --cpus-per-gpu=2 -> slots
--gpus=4 --cpus-per-gpu=4 -> nodes
--gres=gpu:2 --cpus-per-gpu=3 -> nodes
--array=0-1 --gpus=2 --cpus-per-gpu=2 -> nodes
-n2 --gpus-per-task=1 --cpus-per-gpu=3 -> nodes
-n3 --gpus-per-task=1 -c 2 -> nodes
-N2 --ntasks-per-node=2 --gpus-per-task=1 -c 3 -> nodes
-N1 -n4 --gres=gpu:2 -c 2 -> slots
-n8 --gpus=2 -c 2 -> slots
--gres=gpu:1 -c 20 -n3 -N1-3 -> slots
--gpus=2 -c 20 -n3 -> plain
--gres=gpu:1 --mincpus=6 -> slots
--gpus=2 -O -n3 -> slots
-n2 --gpus-per-task=1 -C {rack} -O -> plain
-B 1:2:1 --gres=gpu:1 -n2 -> slots
--gpus=2 --threads-per-core=1 -c 2 -> slots
--gres=gpu:1 --ntasks-per-socket=1 -n2 -> slots
--gres=gpu:1 --ntasks-per-core=1 -n2 -> slots
--gres=gpu:2 --cores-per-socket=8 -> slots
--gres=gpu:1 --sockets-per-node=2 -> slots
--gres=gpu:1 --core-spec=1 -> slots
--gres=gpu:1 --thread-spec=1 -> slots
--gres=gpu:1 -n2 --hint=nomultithread -> slots
--gres=gpu:1 --hint=compute_bound -> slots
--gres=gpu:1 --cpu-freq=low -> slots
--gpus=2 -n2 --distribution=cyclic -> slots
-N2 -n4 --gpus-per-node=1 -m plane=2 -> slots
-N2 -n4 --gpus-per-node=1 -m block:cyclic,Pack -> slots
## Memory
--gres=gpu:1 --mem-per-gpu=1000 -> slots
--gpus=2 --mem=2000 -n2 -> slots
-N2 --gpus-per-node=2 --mem-per-gpu=500 -> slots
--gpus=2 --mem-per-cpu=300 -n2 -> slots
--gpus=2 --cpus-per-gpu=2 --mem-per-gpu=1000 -> nodes
--gres=gpu:1 --mem=0 -> slots
--gres=gpu:1 --mem-bind=local -> slots
--gres=gpu:1 --tmp=0 -> slots
--gres=gpu:1 --mem=4000 --mem-update=20@1 -> slots
--gres=gpu:1 --oom-kill-step=1 -> slots
## Which nodes
--gres=gpu:2 -x {second} -> slots
--gres=gpu:2 -w {second} -> plain
--gres=gpu:g1:1 -w {second} -> plain
-N3 --gres=gpu:1 -w {second} -> plain
-N1 --gres=gpu:1 --nodefile={file} -> plain
--gres=gpu:1 -C {rack}|a100 -> slots
--gres=gpu:1 -C {rack}&a100 -> slots
-N2 --gres=gpu:1 -C [{rack}|a100] -> plain
-N2 --gres=gpu:1 -C [{rack}*1&a100*1] -> plain
--gres=gpu:1 --prefer={rack} -> slots
--gres=gpu:1 --batch={rack} -C {rack} -> slots
--gres=gpu:1 --contiguous -N2 -> slots
--gpus=2 --switches=1 -> slots
-N2 --gpus-per-node=1 --switches=1@0:05 -> slots
-N2 --gpus=2 --spread-job -> slots only 22.05 26.05
-n4 --gpus=4 --spread-job -> slots only 22.05 26.05
-N1-2 -n2 --gpus=2 --use-min-nodes -> slots
-N2 --gres=gpu:1 --segment=1 -> slots
-N2 --gres=gpu:1 --segment=1 --spread-segments -> slots
-N2 --gres=gpu:1 --segment=1 --consolidate-segments -> slots
--gres=gpu:1 --reservation={resv} -> none
-p {part},{also} --gres=gpu:1 -> slots
--gres=gpu:1 --exclusive -> plain
--gres=gpu:1 --exclusive=user -> plain
--gres=gpu:1 --oversubscribe -> slots
--gres=gpu:1 --no-kill -> slots
--gres=gpu:1 --wait-all-nodes=1 -> slots
--gres=gpu:1 --delay-boot=1 -> slots
--gres=gpu:1 --reboot -> none
--gres=gpu:1 --network=sn_single -> slots
--gres=gpu:1 --power=level -> slots only 22.05
--gres=gpu:1 --resv-ports=1 -> none
--gres=gpu:1 --stepmgr -> slots
--gres=gpu:1 --resources=none:1 -> none
--gres=gpu:1 --licenses=matlab:2 -> slots
## When, and what becomes of it
--gres=gpu:1 -t 7 -> slots
--gres=gpu:1 -t 20 --time-min=5 -> slots
--gres=gpu:1 --begin=now+4 -> slots
--gres=gpu:1 --deadline=now+2hours -t 10 -> none
--gres=gpu:1 --dependency=afterok:{before} -> slots
--gres=gpu:1 --dependency=afterany:{before} --kill-on-invalid-dep=yes -> slots
--gres=gpu:1 -d singleton -> slots
--gres=gpu:1 --nice=100 -> slots
--gres=gpu:1 --priority=5 -> slots
--gres=gpu:1 --hold -> slots
--gres=gpu:1 --requeue -> slots
--gres=gpu:1 --no-requeue -> slots
--gres=gpu:1 --signal=USR1@30 -t 3 -> slots
--gres=gpu:1 --signal=B:USR1@30 -t 3 -> slots
--gres=gpu:1 --qos=normal -> slots
--gres=gpu:1 --account=pal -> slots
--gres=gpu:1 --wckey=thesis -> slots
--gres=gpu:1 --wait -> slots
--gres=gpu:1 --test-only -> none
## Binding of GPUs
--gres=gpu:2 --gres-flags=enforce-binding -> slots
--gres=gpu:2 --gres-flags=disable-binding -> slots
--gpus=2 --gpu-bind=single:1 -> slots
-n2 --gpus=2 --gpu-bind=none -> slots
-n2 --gpus=2 --gpu-bind=map_gpu:0,1 -> slots
-n2 --gpus=2 --gpu-bind=per_task:1 -> slots
-n2 --gpus=2 --gpu-bind=closest -> slots
-n2 --gpus=2 --tres-bind=gres/gpu:single:1 -> slots
--gres=gpu:1 --gpu-freq=low -> slots
## Arrays and heterogeneous jobs
--array=0-1 --gres=gpu:1 -n3 -> slots
--array=1,3 --gpus-per-node=2 -N2 -> slots
--array=0-3%2 --gres=gpu:2 -> slots
--array=0-1 --gres=gpu:1 --exclusive -> plain
--gres=gpu:1 : --gres=gpu:2 => ; --het-group=1 -> plain
-n2 : --gres=gpu:1 -N2 => ; --het-group=1; --het-group=0,1 -> plain
--gres=gpu:1 -n1 : -n2 => --het-group=0,1 -> plain
srun --gres=gpu:1 : --gpus-per-node=1 -N2 -> plain
## Where it is said
#SBATCH --gpus=2 -n2 -> slots
#SBATCH --gres=gpu:1 --mem-per-gpu=700 -t 9 -> slots
#SBATCH -N2 --gpus-per-node=1 --exclusive -> plain
SBATCH_GRES=gpu:2 sbatch -n2 -> slots
SBATCH_GPUS=2 sbatch -n2 -> slots
SBATCH_GPUS_PER_NODE=2 sbatch -N2 -> slots
SBATCH_GPUS_PER_TASK=1 sbatch -n2 -> nodes
SBATCH_TIMELIMIT=6 SBATCH_NO_REQUEUE=1 sbatch --gres=gpu:1 -> slots
SBATCH_EXCLUSIVE= sbatch --gres=gpu:1 -> plain
SBATCH_CONSTRAINT=a100 SBATCH_OVERCOMMIT=1 sbatch --gpus=1 -n2 -> slots
SBATCH_MEM_PER_GPU=800 SBATCH_CPUS_PER_GPU=2 sbatch --gpus=1 -> slots
## Steps inside
-N2 --gpus-per-node=1 => --relative=1 -N1 -n1; -N1 -n1 -> slots
-n4 --gpus=4 => -n1 --gpus=1 --exact; -n2 --gpus=2 --overlap; -n4 --gpus-per-task=1 -> slots
--gpus-per-node=2 -n2 => --gpus-per-node=1; -n1 --gpus-per-task=2; --gpus=2 -> slots
--gres=gpu:2 -n2 => --gres=gpu:1; --gres=none; --gpu-bind=single:1; --tres-per-task=gres/gpu:1 -> slots
--gpus=2 -n2 -c2 => -c1 -n4; --cpu-bind=cores; --accel-bind=g; --mem=500; --exclusive -n1 -> slots
-n2 --gpus-per-task=1 => --gpus-per-task=1; -n1; -n2 --ntasks-per-gpu=1; --kill-on-bad-exit=1 -> nodes
-N2 -n4 --gpus=4 => -N1; -N2 -n2; -m cyclic; --wait=5; --multi-prog {prog} -> slots but split
--gres=gpu:2 => --jobid=$SLURM_JOB_ID --gres=gpu:1; --external-launcher; -K --mpi=none -> slots
--mem-per-gpu=600 --gpus=2 => -n1 --mem-per-gpu=600 --gpus=1; -n1 --mem=0 -> slots
## salloc and srun
srun --gpus-per-node=1 -> nodes
salloc --gpus-per-node=2 -> nodes
salloc --gpus=2 => --gpus-per-node=1; --gres=gpu:2 -> slots
salloc --gres=gpu:1 -> nodes
salloc -N2 --gpus-per-node=2 -n4 -> nodes
salloc -n2 --gpus-per-task=1 -> nodes
salloc --gpus=2 --cpus-per-gpu=2 -> nodes
salloc --gpus=2 -n2 --mem-per-gpu=500 -t 8 -> slots
salloc --gres=gpu:1 --exclusive -> plain
salloc --gres=gpu:1 -I60 -> none
salloc --gres=gpu:g1:1 -w {first} -> plain
srun --gres=gpu:1 -> nodes
srun -N2 --gpus-per-node=2 -n4 -> nodes
srun -n2 --gpus-per-task=1 -> nodes
srun -n2 --gpus=2 --gpu-bind=single:1 -> slots
srun --gpus=2 --cpus-per-gpu=2 -> nodes
srun -N2 -n3 --gpus=4 -> slots but split
srun --gpus=1 --mem=0 -> slots
srun --gpus=1 -I60 -> none
srun --gpus=2 -n4 --ntasks-per-gpu=2 -> none
srun --gres=gpu:1 -x {first} --time-min=3 -t 9 -> nodes
srun -n2 --tres-per-task=gres/gpu:1 -> nodes
srun --gres=gpu:1 --no-kill --begin=now+3 -> nodes
"""
PLACED = ("slots", "nodes", "plain", "none")
_COMMANDS = ("sbatch", "salloc", "srun")


@dataclass(frozen=True)
class Row:
    topic: str
    text: str  # the command line
    steps: tuple[str, ...] = ()  # options of srun in its script; none: the usual
    placed: str = ""  # empty: nothing was laid down, as for drawn combinations
    only: tuple[str, ...] = RELEASES
    exception: str = ""

    @property
    def name(self) -> str:
        return self.text + (f" => {'; '.join(self.steps)}" if self.steps else "")

    def speaks_of(self, word: str) -> bool:
        return word in self.text

    @property
    def environment(self) -> tuple[str, ...]:
        words = self.text.split()
        known = [words.index(command) for command in _COMMANDS if command in words]
        return tuple(words[: known[0]]) if known else ()

    @property
    def command(self) -> str:
        words = self.text.split()[len(self.environment) :]
        return words[0] if words[0] in _COMMANDS else "sbatch"

    @property
    def in_script(self) -> bool:
        return self.text.startswith("#SBATCH ")

    @property
    def words(self) -> list[str]:
        words = self.text.split()[len(self.environment) :]
        return words[1:] if words[0] in (*_COMMANDS, "#SBATCH") else words

    def placed_on(self, release: str) -> str:
        return "nodes" if release == "22.05" and self.placed == "slots" else self.placed


def read_rows(table: str, placed: Sequence[str] = PLACED) -> Iterator[Row]:
    topic = ""
    for line in table.strip().splitlines():
        if line.startswith("## "):
            topic = line[3:]
            continue
        found = re.fullmatch(r"(.+?)(?: => (.*?))? -> (\w+)(?: only ([\d. ]+?))?(?: but ([\w-]+))?", line)
        assert found and found[3] in placed, line
        steps = tuple(step.strip() for step in found[2].split(";")) if found[2] is not None else ()
        only = tuple(found[4].split()) if found[4] else RELEASES
        yield Row(topic, found[1], steps, found[3], only, found[5] or "")


@cache
def all_rows() -> tuple[Row, ...]:
    written = list(read_rows(TABLE))
    texts = {row.text for row in written}
    drawn = [text for text in combinations() if text not in texts]
    several = re.compile(r"--gpus=.* -N(2|1-3)")  # a total, maybe over several nodes
    rows = (*written, *(Row("Drawn in pairs", text, exception="split" * bool(several.search(text))) for text in drawn))
    assert len({row.name for row in rows}) == len(rows), "a row twice"
    return rows


def rows_for(release: str) -> list[Row]:
    """The rows whose options that release has."""
    return [row for row in all_rows() if release in row.only and knows(release, row.command, long_options(row.words))]
