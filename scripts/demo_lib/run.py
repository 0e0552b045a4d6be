"""One run of the workload. In: jobs and a cluster. Out: what each job took and got, seen from outside of pald."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .cluster import Stage, tool
from .worked import Worked, worked
from .workload import DemoJob


@dataclass(frozen=True)
class Ran:
    job: DemoJob
    submitted: float
    ended: float
    ran_s: float
    true_s: float  # what its GPUs' true speeds make of it; more than that is this machine's doing
    places: tuple[tuple[str, str], ...]  # (node, slot), at the end
    span: str = "node"  # of its GPUs
    comm: float = 1.0  # what that costs each of its steps
    worked: Worked | None = None  # of one that saves
    beside: float = 1.0  # how much longer its steps took, as others had its GPU

    @property
    def talked_s(self) -> float:
        """Lost by the distance of its GPUs."""
        return self.ran_s * (1 - 1 / self.comm)

    @property
    def jct_s(self) -> float:
        return self.ended - self.submitted


def run(jobs: Sequence[DemoJob], stage: Stage, out: Path, tick: Callable[[int, int], None]) -> list[Ran]:
    """Submit each job at its time and wait for all; `tick(done, running)` moves the progress bar."""
    out.mkdir()
    begun = time.time()
    submitted: dict[int, float] = {}
    done: set[int] = set()
    deadline = begun + 60 + 20 * max(j.at + j.ideal_s for j in jobs)
    while len(done) < len(jobs):
        if time.time() > deadline:
            raise SystemExit(f"demo: {len(jobs) - len(done)} jobs did not end; see {out}")
        for job in jobs[len(submitted) :]:
            if time.time() - begun < job.at:
                break
            submitted[job.number] = time.time()
            subprocess.run(
                job.sbatch(str(out), stage.sbatch),
                env=stage.env,
                stdout=subprocess.DEVNULL,
                cwd=out,
                timeout=30,
                check=True,
            )
        done |= {j.number for j in jobs if j.number not in done and _reports(out, j)}
        tick(len(done), len(submitted) - len(done))
        time.sleep(0.1)
    _wait_until_empty(stage)
    return [_ran(job, submitted[job.number], out) for job in jobs]


def _reports(out: Path, job: DemoJob) -> list[dict[str, object]]:
    """palwork's lines, once all of the job's nodes have told theirs."""
    path = out / f"{job.number}.out"
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    # srun of 26.05 tells now and then of a socket that it has closed itself; its steps run on.
    wrong = [line for line in lines if not line.startswith(("{", "srun: error: _attempt_accept"))]
    if wrong and not job.saves:  # one that is requeued has Slurm's word on it in its output
        raise SystemExit(f"demo: job {job.number} said: {wrong[0]}")
    told: list[dict[str, object]] = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    if job.saves:  # each run tells how far it came
        told = [line for line in told if line["steps"] == job.steps]
    return told if len(told) == job.nodes else []


def _ran(job: DemoJob, submitted: float, out: Path) -> Ran:
    told = _reports(out, job)
    short = [line for line in told if line["steps"] != job.steps]
    if short:
        raise SystemExit(f"demo: job {job.number} was cut short: {short[0]}")
    places = tuple((str(line["node"]), str(slot)) for line in told for slot in line["gpus"])  # type: ignore[attr-defined]
    if len(places) != job.gpus:
        raise SystemExit(f"demo: job {job.number} asked for {job.gpus} GPUs and found {places}")
    ended = (out / f"{job.number}.out").stat().st_mtime
    ran_s = max(float(str(line["seconds"])) for line in told)
    beside = max(float(str(line["beside"])) for line in told)
    true_s = max(float(str(line["true_step_time"])) for line in told) * job.steps * beside
    whole = worked(out / f"{job.number}.log", job.steps)
    if whole is not None:
        ran_s, true_s = whole.ran_s, whole.true_s
    return Ran(
        job, submitted, ended, ran_s, true_s, places, str(told[0]["span"]), float(str(told[0]["comm"])), whole, beside
    )


def _wait_until_empty(stage: Stage) -> None:
    for _ in range(300):
        if not tool(str(stage.bin / "squeue"), "-h").strip():
            return
        time.sleep(0.1)
    raise SystemExit("demo: the queue did not empty")
