"""The triad a = b + s * c over large arrays: bound by the memory's bandwidth. In: a Target. Out: a Kernel."""

from __future__ import annotations

from pal_slurm.probe.kernels import Kernel, KernelOptions, Target
from pal_slurm.probe.timing import Stepped
from pal_slurm.probe.torching import torch_for

ABOUT = "triad over arrays of n numbers (memory-bound); options: n"


def prepare(target: Target, argument: str) -> Kernel:
    options = KernelOptions(argument)
    n = options.whole("n", 2**28 if target.runs_on == "cuda" else 2**22)
    options.done()
    if target.runs_on != "cuda":
        return _on_cpu(n)
    torch, device, wait = torch_for(target)
    b, c = torch.rand(n, device=device), torch.rand(n, device=device)
    out = torch.empty_like(b)
    return Stepped(lambda: torch.add(b, c, alpha=3.0, out=out), wait)


def _on_cpu(n: int) -> Kernel:
    import numpy as np

    b, c = np.ones(n, dtype=np.float32), np.ones(n, dtype=np.float32)
    out = np.empty_like(b)

    def step() -> None:
        np.multiply(c, np.float32(3.0), out=out)
        np.add(b, out, out=out)

    return Stepped(step)
