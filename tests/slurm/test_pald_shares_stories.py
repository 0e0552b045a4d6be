"""What happens to a job from outside while another has its GPU too: signals, limits, requeues, steps of other shells.

Each story is told without pald and with it, where the job is put on the GPU of another; both have to be the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.slurm.minicluster import Minicluster, wait_for
from tests.slurm.pald import Pald, lua_settings, plain
from tests.slurm.shapes.parts import SHARES
from tests.slurm.test_pald_shares_lines import SETTINGS, put_beside

GPUS = 16
DEVICES = "echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | grep -c ."
Told = tuple[str, ...]


class Stage:
    """Where one story is played: its jobs, and what they wrote."""

    def __init__(self, cluster: Minicluster, out: Path) -> None:
        self.cluster, self.out, self.jobs = cluster, out, list[int]()

    def submit(self, script: str, *options: str) -> int:
        words = ("sbatch", "--parsable", "-o", str(self.out), "--mem=100", "-t", "10", "--gres=gpu:1", SHARES, *options)
        self.jobs.append(int(self.cluster.client(*words, stdin=f"#!/bin/sh\n{script}\n").partition("_")[0]))
        return self.jobs[-1]

    def lines(self) -> Told:
        """What the script wrote, each line once: what Slurm itself writes there has times and names of nodes in it."""
        text = self.out.read_text(errors="replace") if self.out.exists() else ""
        return tuple(
            dict.fromkeys(line for line in text.splitlines() if not line.startswith(("srun", "slurmstepd", "[")))
        )

    def says(self, line: str) -> None:
        wait_for(lambda: line in self.lines(), f"{self.out.name} says {line!r}: {self.lines()}", 240, 0.2)

    def end(self, job: int, *more: str) -> Told:
        """Once the job is over: its state, exit code and lines."""
        states = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
        wait_for(lambda: self.cluster.state(job) in states, f"{self.out.name}: job {job} is over", 240, 0.2)
        fields = self.cluster.fields(job)
        return (fields["JobState"], fields["ExitCode"], *more, *self.lines())

    def run(self, *words: str) -> str:
        done = self.cluster.run(*words, timeout=60)
        return f"{done.returncode} {done.stdout.strip()}"


def cancelled(stage: Stage) -> Told:
    job = stage.submit(f"srun sh -c 'trap \"echo term >>{stage.out}; exit 5\" TERM; echo up; sleep 100 & wait'")
    stage.says("up")
    stage.run("scancel", str(job))
    stage.says("term")
    return stage.end(job)


def signalled_step(stage: Stage) -> Told:
    job = stage.submit("srun sh -c 'trap \"echo usr1; exit 6\" USR1; echo up; sleep 100 & wait'\necho code $?")
    stage.says("up")
    stage.run("scancel", "-s", "USR1", str(job))
    return stage.end(job)


def signalled_batch(stage: Stage) -> Told:
    job = stage.submit("trap 'echo usr1; exit 7' USR1\necho up\nsleep 100 & wait")
    stage.says("up")
    stage.run("scancel", "-b", "-s", "USR1", str(job))
    return stage.end(job)


def out_of_time(stage: Stage) -> Told:
    script = "trap 'echo usr1' USR1\necho up\nfor i in $(seq 300); do sleep 1 & wait; done"
    return stage.end(stage.submit(script, "-t", "1", "--signal=B:USR1@30"))


def requeued(stage: Stage) -> Told:
    script = 'n=${SLURM_RESTART_COUNT:-0}\necho "run $n"\n[ $n = 1 ] || { scontrol requeue $SLURM_JOB_ID; sleep 100; }'
    job = stage.submit(f'{script}\nsrun -n1 sh -c "{DEVICES}"\necho code $?', "--requeue", "--open-mode=append")
    stage.says("run 1")
    return stage.end(job)


def waited_for(stage: Stage) -> Told:
    words = ("sbatch", "--wait", "-o", str(stage.out), "--mem=100", "-t", "10", "--gres=gpu:1", SHARES)
    done = stage.cluster.run(*words, "--wrap", "srun -n1 sh -c 'exit 4' 2>&-; echo code $?; exit 3", timeout=120)
    stage.jobs.append(int(done.stdout.split()[-1]))
    return (str(done.returncode), *stage.end(stage.jobs[-1]))


def entered(stage: Stage) -> Told:
    """By shells on the login host, as for a look at what it does."""
    job = stage.submit("echo up; sleep 100")
    stage.says("up")
    forms = ((), ("--gres=gpu:1",), ("--gpus=1",), ("--gres=none",))
    shown = [stage.run("srun", f"--jobid={job}", "--overlap", "-n1", *form, "sh", "-c", DEVICES) for form in forms]
    stage.run("scancel", str(job))
    return stage.end(job, *shown)


def attached(stage: Stage) -> Told:
    job = stage.submit("srun -n1 -o none sh -c 'for i in $(seq 200); do echo here; sleep 0.5; done' & echo up; wait")
    stage.says("up")
    wait_for(lambda: f"{job}.0" in stage.run("squeue", "-h", "-s", "-j", str(job), "-o", "%i"), "the step is there", 60)
    code, _, said = stage.run("timeout", "8", "sattach", f"{job}.0").partition(" ")
    stage.run("scancel", str(job))
    return stage.end(job, code, *sorted(set(said.split())))


def killed_step(stage: Stage) -> Told:
    return stage.end(stage.submit("srun -n1 sh -c 'kill -9 $$' 2>&-\necho code $?\nexit 9"))


def suspended(stage: Stage) -> Told:
    job = stage.submit("echo up\nsrun -n1 sleep 4\necho code $?")
    stage.says("up")
    first = stage.run("scontrol", "suspend", str(job))
    state = stage.cluster.state(job)
    return stage.end(job, first, state, stage.run("scontrol", "resume", str(job)))


def one_task_cancelled(stage: Stage) -> Told:
    script = "t=$SLURM_ARRAY_TASK_ID; echo up $t of $SLURM_ARRAY_TASK_COUNT; sleep 8; echo end $t"
    job = stage.submit(script, "--array=0-2", "--open-mode=append")
    for task in range(3):
        stage.says(f"up {task} of 3")
    stage.run("scancel", f"{job}_1")
    for task in (0, 2):
        stage.says(f"end {task}")
    return tuple(sorted(stage.lines()))


def one_after_the_other(stage: Stage) -> Told:
    first = stage.submit("echo first; exit 1")
    second = stage.submit("echo second", f"--dependency=afternotok:{first}", "--open-mode=append")
    return stage.end(second)


def longer(stage: Stage) -> Told:
    job = stage.submit("echo up; sleep 100", "-t", "5")
    stage.says("up")
    said = stage.run("scontrol", "update", f"JobId={job}", "TimeLimit=9", "Comment=app:sweep")
    fields = stage.cluster.fields(job)
    stage.run("scancel", str(job))
    return stage.end(job, said, fields["TimeLimit"], fields["NumCPUs"], fields["NumNodes"])


STORIES: Mapping[str, Callable[[Stage], Told]] = {
    story.__name__: story
    for story in (
        out_of_time, requeued, cancelled, signalled_step, signalled_batch, waited_for, entered, attached, killed_step,
        suspended, one_task_cancelled, one_after_the_other, longer,
    )
}  # fmt: skip


def told(cluster: Minicluster, home: Path) -> tuple[Mapping[str, Told], Mapping[str, list[int]]]:
    """All at once; and whose jobs they were."""
    home.mkdir()
    stages = {name: Stage(cluster, home / name) for name in STORIES}
    with ThreadPoolExecutor(len(STORIES)) as pool:
        begun = {name: pool.submit(story, stages[name]) for name, story in STORIES.items()}
        return {name: one.result() for name, one in begun.items()}, {name: s.jobs for name, s in stages.items()}


@pytest.fixture
def shared(release: str) -> Iterator[Minicluster]:
    name = f"t{os.getpid()}-stories-{release}"
    cluster = Minicluster.up(name, release, "--nodes", "4", "--gpus", "4", "--shards", "2")
    lua_settings(cluster, shards="pald")
    yield cluster
    cluster.down()


@pytest.mark.slow
@pytest.mark.slurm("26.05", "24.11")
def test_what_happens_to_a_job_from_outside_is_the_same_while_another_has_its_gpu_too(
    shared: Minicluster, tmp_path: Path
) -> None:
    with plain(shared):
        alone, _ = told(shared, tmp_path / "alone")
    with Pald(shared, tmp_path / "pald", SETTINGS) as pald:
        pald.start()
        hosts = [shared.submit("--gres=gpu:1", "--mem=100", "-t", "60", SHARES, wrap="sleep 3000") for _ in range(GPUS)]
        for job in hosts:
            shared.wait_state(job, "RUNNING", within=60)
        beside, jobs = told(shared, tmp_path / "beside")
        shared_ones = put_beside(pald)
        print({name: sorted(set(mine) & shared_ones) for name, mine in jobs.items()})
        assert [name for name, mine in jobs.items() if not set(mine) & shared_ones] == []
    wrong = {name: (alone[name], beside[name]) for name in alone if alone[name] != beside[name]}
    assert wrong == {}, "\n".join(f"{name}: {one}\n    beside: {two}" for name, (one, two) in wrong.items())
