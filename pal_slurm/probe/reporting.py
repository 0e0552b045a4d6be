"""Step times from a job to the watcher of its node. In: counted steps. Out: one datagram; nobody waits for it.

The socket is local. Who sends is told by the kernel, so one job can't speak for another. Where no watcher listens,
or it is busy, the report is dropped: a job must never fail or wait because of us.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import time
from dataclasses import asdict, dataclass

from pal_slurm.probe.document import StepTimes
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.words import APP, JOB, digits

DEFAULT_SOCKET = "/run/pal-probe/steps.sock"
MOST_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Report:
    job: str
    steps: StepTimes


def socket_path() -> str:
    return os.environ.get("PAL_PROBE_SOCKET") or DEFAULT_SOCKET


def send(steps: StepTimes) -> bool:
    """Whether a watcher took it."""
    job = os.environ.get("SLURM_JOB_ID", "")
    data = json.dumps({"job": job, **asdict(steps)}, allow_nan=False).encode()
    if len(data) > MOST_BYTES:
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
        out.sendto(data, socket_path())
        return True
    return False


def rank() -> int:
    text = os.environ.get("SLURM_PROCID", "0")
    return int(text) if digits(text) else 0


def report_once(seconds: float, count: int, app: str | None) -> None:
    """For `pal-probe step`."""
    if not (math.isfinite(seconds) and seconds > 0 and count >= 1):
        raise BadInput(f"step: {seconds} seconds for {count} steps can't be")
    if app is not None and not APP.fullmatch(app):
        raise BadInput(f"step: --app {app!r} is no application's name")
    now, each = time.time(), seconds / count
    send(StepTimes(rank(), now - seconds, now, count, seconds, each, each, app))


def parse(data: bytes) -> Report | None:
    """A datagram from anybody; None: it is none of ours."""
    try:
        fields = json.loads(data)
        job, app = str(fields.pop("job")), fields.get("app")
        steps = StepTimes(
            rank=int(fields["rank"]),
            begun_at=float(fields["begun_at"]),
            ended_at=float(fields["ended_at"]),
            count=int(fields["count"]),
            seconds=float(fields["seconds"]),
            fastest=float(fields["fastest"]),
            slowest=float(fields["slowest"]),
            app=None if app is None else str(app),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
    return Report(job, steps) if JOB.fullmatch(job) and _believable(steps) else None


def _believable(steps: StepTimes) -> bool:
    numbers = (steps.begun_at, steps.ended_at, steps.seconds, steps.fastest, steps.slowest)
    if not all(math.isfinite(number) for number in numbers) or not 0 <= steps.rank <= 10**7:
        return False
    ordered = 0 < steps.fastest <= steps.slowest <= 86_400 and steps.begun_at <= steps.ended_at
    named = steps.app is None or APP.fullmatch(steps.app) is not None
    return ordered and named and 1 <= steps.count <= 10**9 and 0 < steps.seconds <= 1e9
