"""Lines on a cluster of two GPU models, where pald moves jobs and they are owed shares. Out: the rows, their cluster.

Each row has four nodes to itself: {first} and {second} have v100s, {third} and the fourth a100s. job_submit.lua is
there also without pald: where devices are named by slot it is what knows GPU models.
"""

from __future__ import annotations

from dataclasses import replace

from tests.slurm.shapes.options import knows, long_options
from tests.slurm.shapes.rows import Row, read_rows
from tests.slurm.shapes.run import Ground

TABLE = """
## Models
--gres=gpu:a100:2 -> any
--gpus=v100:1,a100:1 -N2 -> any
--gres=gpu:a100:1,gpu:v100:1 -> any
--gres=gpu:a100:1 -C v100 -> any
--gpus=a100:5 -N1 -> any
-N2 --gres=gpu:1 -C [a100*2|v100] -> any
-N3 --gres=gpu:1 -C [a100*1&v100*2] -> any
-N2 --gpus-per-node=1 -C [v100|a100] --array=0-1 -> any
-N1 --gpus=1 -C (v100|a100)&nosuch -> any
-N2 --gpus-per-node=a100:1 --prefer=v100 -> any
-N1-2 -n2 --gpus=2 --prefer=a100 -> any
--gpus=1 --prefer=v100 --mem-per-gpu=100 --cpus-per-gpu=3 -> any
-p {also},{part} -n2 --gpus-per-task=a100:1 -> any
--gpus=a100:1 : --gpus=v100:1 => ; --het-group=1 -> any
SBATCH_CONSTRAINT=a100 sbatch --gpus=2 -n2 -> any
SBATCH_GPUS=v100:2 sbatch -n2 -> any
srun --gpus=a100:1 -> any
salloc --gpus=v100:2 => -n1 --gpus=1; -n2 -> any
## Which nodes
-N3 -n3 -w {second},{third} --gres=gpu:1 -> any
-N2 -w {first} --gpus=v100:2 -> any
--gpus=1 -x {first},{second} -> any
-N2 --gres=gpu:2 -C a100 --switches=1@0:10 -> any
-N2 --gpus-per-node=1 --contiguous -> any
-N2 -n4 --gpus=4 -C v100 --spread-job -> any only 22.05 26.05 but split
-N2 -n4 --gpus-per-node=v100:2 -m plane=2 -> any
--reservation={resv} --gpus=1 -> any
--gres=gpu:v100:1 --exclusive=user -> any
## CPUs and sockets
-N1 --gpus-per-socket=1 --sockets-per-node=2 -C v100|a100 -> any
-N1 --gpus-per-socket=a100:1 --sockets-per-node=2 -> any
-N1 --gpus=a100:2 --cores-per-socket=2 -> any
--gres=gpu:1 --mem=0 -C a100 -> any
-n3 --gpus=3 --ntasks-per-gpu=1 -C a100 -N1 -> any
-N1-2 --gpus=v100:2 --use-min-nodes -> any
## When
--gpus=a100:1 --licenses=matlab:2 --qos=normal --nice=50 -> any
--gpus=1 --bb=capacity=1G -> any
--gpus=1 --begin=now+5 -C v100 -> any
--gpus=a100:1 --deadline=now+2hours -t 10 -> any
--array=1-24%3 --gres=gpu:1 -C a100 => -n1 -> any
--array=1-4 -d singleton --gpus=1 => -n1 -> any
--gpus=a100:2 --hold --priority=7 -> any
--gres=gpu:v100:1 --dependency=afterany:{before} --no-requeue -> any
--gpus=1 -t 20 --time-min=5 --signal=USR1@30 --prefer=a100 -> any
"""


def _nodes(row: int, rows: int) -> tuple[int, ...]:
    """Two of the first half of all, two of the second."""
    return (2 * row + 1, 2 * row + 2, 2 * (rows + row) + 1, 2 * (rows + row) + 2)


TWO_MODELS = Ground(
    _nodes,
    lambda rows: (
        "--nodes", str(4 * rows), "--models", f"v100={2 * rows},a100={2 * rows}", "--dbd",
        "--set", "Licenses=matlab:1000",
    ),
    ("--comment=app:fast pal:move",),
)  # fmt: skip


def rows_of_models(release: str) -> list[Row]:
    """How pald places them is not laid down."""
    rows = [replace(row, placed="") for row in read_rows(TABLE, ("any",))]
    return [r for r in rows if release in r.only and knows(release, r.command, long_options(r.words))]
