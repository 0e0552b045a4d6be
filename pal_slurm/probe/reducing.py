"""`pal-probe all-reduce`: what distance costs, bare. In: one process per rank. Out: rank 0's document.

Each size is summed over all ranks again and again; the slowest rank's time counts, because training waits for it. NCCL
where every rank has a GPU, else gloo on CPUs. Under srun the ranks know each other by Slurm's own variables.
"""

from __future__ import annotations

import math
import os
import re
import socket
import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from statistics import median, pstdev
from typing import Any

from pal_slurm.probe.document import Reduced, ReduceDocument
from pal_slurm.probe.errors import BadInput, ProbeError
from pal_slurm.probe.words import app_name, digits

MIB = 1 << 20
SIZES_MIB = (1, 16, 64, 256)
WARM = 3  # rounds that don't count
_FIRST = re.compile(r"([A-Za-z0-9._-]+)(?:\[([0-9]+))?")
_PORTS = (20_000, 10_000)  # from, how many: by the job's number


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who this process is among how many, and where they meet."""

    rank: int
    ranks: int
    master: str  # HOST:PORT


def ranks_of(options: Namespace, environment: Mapping[str, str]) -> Ranks:
    """What the options say, else Slurm."""
    rank = environment.get("SLURM_PROCID", "") if options.rank is None else str(options.rank)
    ranks = environment.get("SLURM_NTASKS", "") if options.ranks is None else str(options.ranks)
    if not digits(rank) or not digits(ranks):
        raise BadInput("which rank is this, and of how many? Start it by srun, or say --rank N --ranks M")
    if not 2 <= int(ranks) <= 1024 or int(rank) >= int(ranks):
        raise BadInput(f"rank {rank} of {ranks}: two ranks at least, and each has a number below theirs")
    return Ranks(int(rank), int(ranks), options.master or _meeting(environment))


def _meeting(environment: Mapping[str, str]) -> str:
    first = _FIRST.match(environment.get("SLURM_STEP_NODELIST", ""))
    step = environment.get("SLURM_JOB_ID", "") + environment.get("SLURM_STEP_ID", "")
    if first is None or not digits(step):
        raise BadInput("where do the ranks meet? Say --master HOST:PORT, the same to each")
    return f"{first[1]}{first[2] or ''}:{_PORTS[0] + int(step) % _PORTS[1]}"


def measure(who: Ranks, sizes_mib: list[int], rounds: int, patience_s: float, made_by: str) -> ReduceDocument | None:
    """None: another rank writes it down."""
    torch, dist = _torch()
    begun = time.time()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", _local(torch.cuda.device_count())) if gpu else torch.device("cpu")
    backend = "nccl" if gpu else "gloo"
    try:
        dist.init_process_group(
            backend, init_method=f"tcp://{who.master}", rank=who.rank, world_size=who.ranks,
            timeout=timedelta(seconds=patience_s),
        )  # fmt: skip
        try:
            nodes: list[Any] = [None] * who.ranks
            dist.all_gather_object(nodes, os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0])
            timed = [_timed(torch, dist, device, size, rounds) for size in sizes_mib]
        finally:
            with suppress(RuntimeError):
                dist.destroy_process_group()
    except (RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ProbeError(
            f"rank {who.rank} of {who.ranks}, meeting at {who.master}: {said}; do all ranks run, and is the port free?"
        ) from error
    if who.rank:
        return None
    model = app_name(torch.cuda.get_device_name(device)) if gpu else "cpu"
    job = os.environ.get("SLURM_JOB_ID") or None
    return ReduceDocument(made_by, begun, time.time(), job, backend, model, tuple(map(str, nodes)), tuple(timed))


def _torch() -> tuple[Any, Any]:
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise ProbeError(
            f"all-reduce needs torch, which can't be imported here ({error}); install it for this interpreter"
        ) from error
    if not dist.is_available():
        raise ProbeError("this torch was built without torch.distributed; install another build")
    return torch, dist


def _local(devices: int) -> int:
    local = os.environ.get("SLURM_LOCALID", "0")
    return int(local) % max(devices, 1) if digits(local) else 0


def _timed(torch: Any, dist: Any, device: Any, size_mib: int, rounds: int) -> Reduced:
    data = torch.zeros(size_mib * MIB // 4, dtype=torch.float32, device=device)
    slowest = torch.zeros(rounds, dtype=torch.float32, device=device)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for i in range(WARM + rounds):
        dist.barrier()
        wait()
        begun = time.perf_counter()
        dist.all_reduce(data)
        wait()
        if i >= WARM:
            slowest[i - WARM] = time.perf_counter() - begun
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    seconds = [max(float(value), 1e-9) for value in slowest.tolist()]
    return Reduced(size_mib * MIB, rounds, median(seconds), pstdev(map(math.log, seconds)))
