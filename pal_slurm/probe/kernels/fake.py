"""Steps as long as a fake GPU's hidden true slowness says, with measurement noise. In: a Target. Out: a Kernel.

`fake:A,base=0.02,noise=0.01,pace=1`: class A, 20 ms per step on a median GPU, 1 % noise from step to step. `pace` below
1 sleeps that share of the time only and reckons the rest, for large clusters on small machines.
"""

from __future__ import annotations

import random
import time

from pal_slurm.probe.devices.fake import describe
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.kernels import Done, Kernel, KernelOptions, Target

ABOUT = "steps as slow as a fake GPU's hidden speed; argument: CLASS, options: base, noise, pace"


def prepare(target: Target, argument: str) -> Kernel:
    cls, _, rest = argument.partition(",")
    cls = cls or "A"
    options = KernelOptions(rest)
    base = options.number("base", 0.02, 1e-6, 3600.0)
    noise = options.number("noise", 0.01, 0.0, 1.0)
    pace = options.number("pace", 1.0, 0.0, 1.0)
    options.done()
    name, _, where = target.source.partition(":")
    if name != "fake":
        raise BadInput(f"the kernel `fake` runs on fake devices only, not on those of {name!r}")
    speeds = describe(where).by_uuid(target.uuid).speeds
    if cls not in speeds:
        raise BadInput(f"the description of {target.uuid} has no speed for class {cls}, but for {sorted(speeds)}")
    return Fake(base * speeds[cls], noise, pace)


class Fake:
    def __init__(self, step: float, noise: float, pace: float) -> None:
        self._step, self._noise, self._pace, self._rng = step, noise, pace, random.Random()

    def run(self, steps: int) -> Done:
        begun = time.perf_counter()
        seconds = sum(self._step * self._rng.lognormvariate(0.0, self._noise) for _ in range(steps))
        left = begun + seconds * self._pace - time.perf_counter()
        if left > 0:
            time.sleep(left)
        return Done(time.perf_counter() - begun if self._pace == 1.0 else seconds, steps)

    def close(self) -> None:
        """Nothing is held."""
