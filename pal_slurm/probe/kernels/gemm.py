"""Multiplying square matrices: bound by arithmetic and often by the power cap. In: a Target. Out: a Kernel."""

from __future__ import annotations

from pal_slurm.probe.kernels import Kernel, KernelOptions, Target
from pal_slurm.probe.timing import Stepped
from pal_slurm.probe.torching import torch_for

ABOUT = "n x n matrix product (compute-bound); options: n"


def prepare(target: Target, argument: str) -> Kernel:
    options = KernelOptions(argument)
    n = options.whole("n", 8192 if target.runs_on == "cuda" else 384)
    options.done()
    if target.runs_on != "cuda":
        return _on_cpu(n)
    torch, device, wait = torch_for(target)
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    a = torch.randn(n, n, device=device, dtype=kind)
    b = torch.randn(n, n, device=device, dtype=kind)
    out = torch.empty_like(a)
    return Stepped(lambda: torch.mm(a, b, out=out), wait)


def _on_cpu(n: int) -> Kernel:
    import numpy as np

    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, n))
    out = np.empty_like(a)
    return Stepped(lambda: np.matmul(a, b, out=out))
