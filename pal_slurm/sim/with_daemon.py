"""A trace through pald: what leases, cycles and budgets cost. In: a world, a policy. Out: a TraceOutcome, its Effort.

Jobs are submitted to a SimSlurm with a lease, as job_submit.lua gives it, and pald places them by the same policy and
the same scores as the bare simulation. They run as fast as the true scores say, from when Slurm starts them.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pal_slurm.errors import BadInput, PalError
from pal_slurm.model import Apps, EditKind, Knowledge, Speeds
from pal_slurm.model.app import APP_NAME
from pal_slurm.scores import alike, binned
from pal_slurm.sim.compare import RATIOS, Column, share
from pal_slurm.sim.daemon import Effort, SimPald, settings
from pal_slurm.sim.engine import OnProgress
from pal_slurm.sim.outcome import Timeline, TraceOutcome
from pal_slurm.sim.policies import PolicySpec, Setting, section_of
from pal_slurm.sim.slurm.backend import SimSlurm
from pal_slurm.sim.slurm.controller import Controller
from pal_slurm.sim.slurm.jobs import SimJob, with_gpus
from pal_slurm.sim.slurm.leasing import Leasing
from pal_slurm.sim.slurm.machine import bits, nodes_of, words_of
from pal_slurm.sim.slurm.setup import SlurmSetup
from pal_slurm.sim.workload import Work
from pal_slurm.sim.worlds import World
from pal_slurm.slurm.records import JobRecord

MEMORY = Path("/dev/shm")  # pald's books of a simulation need no disk
START = 1_700_000_000.0  # simulated time 0, for what wants an epoch
FACTS: Mapping[str, str] = {
    "cycles": "pald's cycles",
    "starts": "edits that started a job",
    "renewed": "leases renewed, or given again",
    "undone": "pins taken back",
    "put_off": "edits that a budget put off",
}


@dataclass(frozen=True, slots=True)
class UnderPald:
    """One policy under pald: the column of its outcomes, and what pald did, seed by seed."""

    column: Column
    bare: Column
    efforts: tuple[Effort, ...]

    def facts(self) -> dict[str, float]:
        """Means over the seeds, by the names of FACTS."""
        each = [
            {
                "cycles": e.cycles,
                "starts": e.done(EditKind.PIN, EditKind.PLAIN),
                "renewed": e.done(EditKind.RENEW, EditKind.LEASE),
                "undone": e.done(EditKind.UNPIN),
                "put_off": e.put_off,
            }
            for e in self.efforts
        ]
        return {name: sum(facts[name] for facts in each) / len(each) for name in FACTS}

    def loss(self, figure: str) -> float:
        """How much more than the bare policy, in per cent."""
        return 100.0 * (self.column.ratio_to(self.bare, figure).mean - 1.0)

    def as_json(self) -> dict[str, float]:
        return {**self.facts(), **{f"{name}_lost_percent": self.loss(name) for name in RATIOS}}


def under_pald(
    columns: Sequence[Column],
    setting: Setting,
    world: Callable[[int], World],
    seeds: Sequence[int],
    keys: Mapping[str, str],
    progress: OnProgress | None = None,
) -> list[UnderPald]:
    """Each of these columns once more, with pald between the policy and the cluster."""
    found = []
    total = 1000 * len(columns) * len(seeds)
    for i, bare in enumerate(columns):
        ran = []
        for j, seed in enumerate(seeds):
            part = share(progress, 1000 * (i * len(seeds) + j), total)
            ran.append(run(bare.spec, setting, world(seed), keys, part))
        spec = msgspec.structs.replace(bare.spec, name=labelled(bare.spec))
        found.append(UnderPald(Column(spec, tuple(o for o, _ in ran)), bare, tuple(effort for _, effort in ran)))
    return found


def labelled(spec: PolicySpec) -> str:
    return f"{spec.label}, pald"


def run(
    spec: PolicySpec, setting: Setting, world: World, keys: Mapping[str, str], progress: OnProgress | None = None
) -> tuple[TraceOutcome, Effort]:
    """`keys`: of pal.yaml, by dotted name."""
    began = time.process_time()
    load = world.load.fitting(setting.cluster.n_gpus)
    controller = Controller(
        nodes_of(setting.cluster), {"gpu": setting.cluster.node_names}, SlurmSetup(limits_kill=False), START
    )
    names = _names(load.works)
    known = binned(world.known.classes, world.known.score, world.known.known, alike)
    knowledge = Knowledge(known, Apps({names[work.app.name]: work.app for work in load.works}))
    truth = Speeds(setting.cluster, world.truth)
    jobs: dict[int, SimJob] = {}
    lost: dict[int, float] = {}
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as home:
        pald = SimPald(
            SimSlurm(controller, words_of(setting.cluster)),
            settings(Path(home), {"policy": section_of(spec)} | _nested(keys)),
            knowledge,
        )
        controller.plugin = Leasing(pald.alive, told=lambda: pald.sign.told_s)
        for place, work in enumerate(load.works):
            record = partial(_record, work, names[work.app.name])
            lasts = partial(_lasts, work, truth, setting.cluster.width, lost)
            controller.at(START + work.submit, partial(_submit, controller, record, lasts, jobs, place))
        left, total = set(load.tracked), len(load.tracked)

        def over() -> bool:
            left.difference_update([place for place in left & jobs.keys() if jobs[place].ended])
            if progress is not None:
                progress(total - len(left), total)
            return not left

        try:
            last = START + load.works[-1].submit
            while not over():
                if controller.now > last and not (controller.pending or controller.running):
                    break
                pald.run_until(controller.now + 600.0)
        finally:
            pald.close()
    if left:
        raise PalError(f"{labelled(spec)}: {len(left)} jobs never ran.")
    chosen = [load.works[place] for place in load.tracked]
    ran = [jobs[place] for place in load.tracked]
    return _outcome(labelled(spec), chosen, ran, lost, setting, time.process_time() - began), pald.effort


def _submit(
    controller: Controller, record: partial[JobRecord], lasts: partial[float], jobs: dict[int, SimJob], at: int
) -> None:
    jobs[at] = controller.pending[controller.submit(record(), lasts)]


def _nested(keys: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, dict[str, str]] = {}
    for key, value in keys.items():
        section, dot, name = key.partition(".")
        if not dot or section not in ("cycle", "lease", "budget"):
            raise BadInput(f"{key}: of pal.yaml, keys of cycle, lease and budget can be set here.")
        found.setdefault(section, {})[name] = value
    return dict(found)


def _names(works: Sequence[Work]) -> dict[str, str]:
    """Each application's name, as a comment may hold it."""
    names = dict.fromkeys(work.app.name for work in works)
    return {name: name if APP_NAME.fullmatch(name) else f"app{i}" for i, name in enumerate(names)}


def _record(work: Work, app: str) -> JobRecord:
    record = JobRecord(0, 0, "PENDING", work.user or "u", ntasks=1, cpus=1, comment=f"app:{app}", requeue=work.requeue)
    if work.limit_s is not None:
        record.time_limit_min = math.ceil(work.limit_s / 60)
    return with_gpus(record, work.gpus, work.per_node)


def _lasts(work: Work, truth: Speeds, width: int, lost: dict[int, float], job: SimJob) -> float:
    """`lost`: by its span, in seconds; its last start counts."""
    gpus = tuple(sorted(part.row * width + slot for part in job.parts for slot in bits(part.slots)))
    factors = truth.factors(work.app, gpus)
    lasts = work.steps * factors.step_time
    lost[work.id] = lasts * (1.0 - 1.0 / factors.comm)
    return lasts


def _outcome(
    label: str, works: Sequence[Work], ran: Sequence[SimJob], lost: Mapping[int, float], setting: Setting, cpu_s: float
) -> TraceOutcome:
    submits = np.array([work.submit for work in works])
    starts = np.array([job.started - START for job in ran])
    ends = np.array([job.ended - START for job in ran])
    gpus = np.array([work.gpus for work in works])
    return TraceOutcome(
        policy=label,
        job_ids=np.array([work.id for work in works], dtype=np.int64),
        submit_s=submits,
        start_s=starts,
        end_s=ends,
        ideal_s=np.array([work.ideal_s() for work in works]),
        gpus=gpus,
        gpu_seconds=float(((ends - starts) * gpus).sum()),
        n_gpus=setting.cluster.n_gpus,
        shared_gpu_seconds=0.0,
        moves=0,
        restarts=0,
        starts_per_job=1.0,
        comm_s=float(np.mean([lost[work.id] for work in works])),
        cpu_s=cpu_s,
        timeline=_timeline(submits, starts, ends, gpus),
    )


def _timeline(submits: NDArray[Any], starts: NDArray[Any], ends: NDArray[Any], gpus: NDArray[Any]) -> Timeline:
    """Queue and busy GPUs of the jobs that count."""
    ones = np.ones_like(gpus)
    at = np.concatenate([submits, starts, ends])
    queued = np.concatenate([ones, -ones, 0 * ones])
    busy = np.concatenate([0 * ones, gpus, -gpus])
    order = np.argsort(at, kind="stable")
    return Timeline(at[order].tolist(), np.cumsum(queued[order]).tolist(), np.cumsum(busy[order]).tolist())
