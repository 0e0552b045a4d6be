"""sbatch lines as users write them, badly or well: moved to and fro, each run gets what the job gets without pald."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pal_slurm.model import Ending
from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, plain
from tests.slurm.test_pald_moves import MOVES, moves

# Three parts, each of which fits into half of the cluster.
LINES = (
    (
        "--gres=gpu:1",
        "-N1 --gpus=2",
        "-N2 --gpus-per-node=1",
        "-n2 -N1 --gpus-per-task=1",
        "--gres=gpu:2 --mem=200 -c2",
        "--gres=gpu:1 --nice=100",
        "--gres=gpu:1 --begin=now+3",
    ),
    (
        "--gpus-per-node=2",
        "-N2 -n2 --gpus=2",
        "-N1 --gpus=3 --cpus-per-gpu=1",
        "--gres=gpu:1 -x n4",
        "--array=1-2 --gres=gpu:1",
        "--gres=gpu:1 -d singleton -J one",
        "--gres=gpu:1 -d afterany:{before}",
    ),
    (
        "--gres=gpu:1 --mem-per-gpu=100",
        "--gres=gpu:1 --signal=B:USR2@30 --open-mode=append",
        "--gres=gpu:1 -t 50 --time-min=40",
        "-N1 -n4 --ntasks-per-node=4 --gres=gpu:1",
        "-N1-2 -n2 --gpus=2",
        "-n2 --gres=gpu:1 -O",
        "--gres=gpu:1 --gpu-bind=none --hint=nomultithread",
    ),
)
STAY = (
    "--gres=gpu:1 -w n1",
    "--gres=gpu:1 --no-requeue",
    "--gres=gpu:1 --deadline=now+2hours",
    "--array=1-2%1 --gres=gpu:1",
    "--gres=gpu:1 --exclusive",
)
TOLD = """
trap 'exit 0' TERM
{{ env | grep -E '^SLURM_(GPUS_ON|NNODES|NTASKS|NPROCS|CPUS_|TASKS_|MEM_|JOB_CPUS|JOB_NUM|TRES|CPU_BIND|HINT)' | sort
  echo "devices $(echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | wc -l)"; }} > {into}.$SLURM_JOB_ID
mv {into}.$SLURM_JOB_ID {into}-${{SLURM_ARRAY_TASK_ID:-0}}-${{SLURM_RESTART_COUNT:-0}}
sleep 3000 & wait
"""
RECORD = ("NumNodes", "NumTasks", "CPUs/Task", "Features", "Partition", "TimeLimit", "Nice", "MinMemoryNode", "Requeue")


class Users:
    """These lines, submitted; each run of each job writes down what it got."""

    def __init__(self, cluster: Minicluster, into: Path, lines: Sequence[str]) -> None:
        self.cluster, self.lines = cluster, lines
        into.mkdir()
        into.chmod(0o777)
        self.into = into
        before = cluster.submit("-n1", wrap="true")
        words = [line.format(before=before).split() for line in lines]
        comment = "--comment=app:resnet pal:move"
        self.arrays = [
            cluster.submit("-t", "60", comment, *line, wrap=TOLD.format(into=into / str(number)))
            for number, line in enumerate(words)
        ]

    @property
    def jobs(self) -> list[int]:
        asked = ",".join(map(str, self.arrays))
        return sorted(map(int, self.cluster.client("squeue", "-h", "-r", f"-j{asked}", "-o", "%A").split()))

    def told(self, run: int) -> dict[str, str]:
        found = self.into.glob(f"*-*-{run}")
        return {path.name.rpartition("-")[0]: path.read_text() for path in found}

    def all_ran(self, run: int) -> None:
        wanted = {f"{n}-{task}" for n, line in enumerate(self.lines) for task in ((1, 2) if "array" in line else (0,))}
        wait_for(lambda: self.told(run).keys() == wanted, f"run {run} of {wanted - self.told(run).keys()}", 240, 0.5)

    def records(self) -> list[dict[str, str]]:
        return [{name: fields.get(name, "") for name in RECORD} for fields in map(self.cluster.fields, self.jobs)]


def half_is_good(pald: Pald, nodes: Sequence[str], number: int) -> None:
    good = {f"{node}:{slot}": 1.0 - number / 1000 for node in nodes for slot in range(4)}
    pald.scores(good, others=1.8 + number / 1000)


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
@pytest.mark.parametrize("part", range(len(LINES)))
def test_a_job_that_is_moved_to_and_fro_gets_in_each_run_what_it_gets_without_pald(
    minicluster: Minicluster, tmp_path: Path, part: int
) -> None:
    with plain(minicluster):
        alone = Users(minicluster, minicluster.dir / "run" / f"alone-{part}", LINES[part])
        alone.all_ran(0)
        records = alone.records()
        minicluster.client("scancel", *map(str, alone.arrays))
        wait_for(lambda: not minicluster.client("squeue", "-h").strip(), "the queue is empty", 60)
    with Pald(minicluster, tmp_path, {**MOVES, "moves.at_once": 32}) as pald, minicluster.leases():
        assert pald.once() == 0
        half_is_good(pald, minicluster.nodes[:4], 0)
        pald.start()
        beside = Users(minicluster, minicluster.dir / "run" / f"beside-{part}", LINES[part])
        beside.all_ran(0)
        for run, nodes in ((1, minicluster.nodes[4:]), (2, minicluster.nodes[:4])):
            half_is_good(pald, nodes, run)
            beside.all_ran(run)
            ended = [move.ending for job in beside.jobs for move in moves(pald, job)]
            wait_for(lambda: all(m.ending for job in beside.jobs for m in moves(pald, job)), "all are over", 60, 1)
            assert set(ended) <= {Ending.MOVED, None}, ended
            since = time.time()
            wait_for(lambda since=since: time.time() > since + 15, "it has paid", 60)  # type: ignore[misc]
        for run in range(3):
            assert beside.told(run) == alone.told(0), f"run {run}"
        assert beside.records() == records
        made = [move for job in beside.jobs for move in moves(pald, job)]
        assert {move.ending for move in made} == {Ending.MOVED}
        print(f"{minicluster.release}: {len(LINES[part])} lines, {len(made)} moves")


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_lines_of_which_one_word_forbids_a_move_stay_where_they_are(minicluster: Minicluster, tmp_path: Path) -> None:
    with Pald(minicluster, tmp_path, {**MOVES, "moves.at_once": 32}) as pald, minicluster.leases():
        assert pald.once() == 0
        half_is_good(pald, minicluster.nodes[:4], 0)
        pald.start()
        users = Users(minicluster, minicluster.dir / "run" / "stay", [*STAY, "--gres=gpu:1"])
        wait_for(lambda: len(users.told(0)) == len(STAY) + 1, "they run", 120)
        half_is_good(pald, minicluster.nodes[4:], 1)
        wait_for(lambda: len(users.told(1)) == 1, "the last one, which may be moved, is", 120)
        for _ in range(3):
            pald.wait_cycle()
        assert [minicluster.fields(job)["Restarts"] for job in users.jobs].count("0") == len(users.jobs) - 1
        assert users.told(1).keys() == {f"{len(STAY)}-0"}
