"""Steps against the clock. In: a step, and what waits until the device is done. Out: a Kernel."""

from __future__ import annotations

import time
from collections.abc import Callable

from pal_slurm.probe.kernels import Done


class Stepped:
    """A kernel made of a function: it is timed as a whole, so that waiting costs once per run."""

    def __init__(self, step: Callable[[], object], wait: Callable[[], object] = lambda: None) -> None:
        self._step, self._wait = step, wait

    def run(self, steps: int) -> Done:
        self._wait()
        begun = time.perf_counter()
        for _ in range(steps):
            self._step()
        self._wait()
        return Done(time.perf_counter() - begun, steps)

    def close(self) -> None:
        """The process's end frees the device."""
