"""Kernels in their child process. In: orders, one JSON object per line. Out: how long it took, or a sentence.

{"prepare": NAME, "argument": ..., "uuid": ..., "runs_on": ..., "source": ..., "warm": SECONDS}
{"run": SECONDS}      as many steps as fill that time, at least one
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any, TextIO

from pal_slurm.probe.kernels import Done, Kernel, Target, prepare
from pal_slurm.probe.words import plain

_MOST_STEPS = 10**7
Say = Callable[[dict[str, object]], None]


class KernelServer:
    def __init__(self) -> None:
        self._kernel: Kernel | None = None
        self._step = 0.0

    def obey(self, order: dict[str, Any]) -> dict[str, object]:
        try:
            return self._prepare(order) if "prepare" in order else self._run(float(order["run"]))
        except Exception as error:  # whatever a kernel raises is one sentence about one GPU
            name = type(error).__name__
            return {
                "fault": plain(str(error) if type(error).__module__.startswith("pal_slurm") else f"{name}: {error}")
            }

    def _prepare(self, order: dict[str, Any]) -> dict[str, object]:
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
        target = Target(str(order["uuid"]), str(order["runs_on"]), str(order["source"]))
        self._kernel = prepare(str(order["prepare"]), target, str(order["argument"]))
        self._warm(self._kernel, float(order["warm"]))
        return {"ready": True}

    def _warm(self, kernel: Kernel, seconds: float) -> None:
        """At least one step; the last ones tell how long a step takes once all is warm."""
        begun, steps = time.perf_counter(), 1
        while True:
            done = kernel.run(steps)
            self._step = _per_step(done)
            left = seconds - (time.perf_counter() - begun)
            if left <= 0:
                return
            steps = max(1, min(2 * steps, int(left / self._step), _MOST_STEPS))

    def _run(self, seconds: float) -> dict[str, object]:
        if self._kernel is None:
            return {"fault": "nothing was prepared"}
        steps = max(1, min(math.ceil(seconds / self._step), _MOST_STEPS))
        at, begun = time.time(), time.monotonic()
        done = self._kernel.run(steps)
        per_step = _per_step(done)
        return {"seconds": per_step, "steps": done.steps, "at": at, "begun": begun, "ended": time.monotonic()}


def _per_step(done: Done) -> float:
    per_step = done.seconds / done.steps
    if not (math.isfinite(per_step) and per_step > 0):
        raise ValueError(f"a step took {per_step} s, which can't be")
    return per_step


def serve(orders: TextIO, say: Say) -> None:
    server = KernelServer()
    for line in orders:
        say(server.obey(json.loads(line)))
