"""torch, where a kernel needs it. In: a Target. Out: torch, its device, and how to wait for it.

ROCm builds of torch answer to the name `cuda` too, so one path serves both vendors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from pal_slurm.probe.errors import ProbeError
from pal_slurm.probe.kernels import Target


def torch_for(target: Target) -> tuple[Any, Any, Callable[[], object]]:
    """(torch, device, wait)."""
    try:
        import torch
    except ImportError as error:
        raise ProbeError(
            f"this kernel needs torch, which can't be imported here ({error}); "
            "install it for the interpreter that runs pal-probe, or choose other kernels"
        ) from error
    torch.manual_seed(1)
    if target.runs_on != "cuda":
        return torch, torch.device("cpu"), lambda: None
    if not torch.cuda.is_available():
        raise ProbeError("torch finds no CUDA or ROCm device: it is a build for CPUs, or the driver is too old for it")
    torch.backends.cudnn.benchmark = True
    return torch, torch.device("cuda", 0), torch.cuda.synchronize


def half(torch: Any, device: Any) -> Any:
    """Mixed precision as training uses it: bfloat16 where the device has it, else float16; nothing on CPUs."""
    if device.type != "cuda":
        return contextlib.nullcontext
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

    def autocast() -> Any:
        return torch.autocast("cuda", dtype=kind)

    return autocast
