"""PageRank on a random graph: sparse, bound by the memory's latency and bandwidth. In: a Target. Out: a Kernel.

A step is one iteration: every node hands its rank on along its edges.
"""

from __future__ import annotations

from pal_slurm.probe.kernels import Kernel, KernelOptions, Target
from pal_slurm.probe.timing import Stepped
from pal_slurm.probe.torching import torch_for

ABOUT = "PageRank iterations on a random graph (sparse, memory-bound); options: nodes, degree"
_DAMPING = 0.85


def prepare(target: Target, argument: str) -> Kernel:
    options = KernelOptions(argument)
    on_gpu = target.runs_on == "cuda"
    nodes = options.whole("nodes", 4_000_000 if on_gpu else 50_000)
    degree = options.whole("degree", 16)
    options.done()
    return _on_gpu(target, nodes, degree) if on_gpu else _on_cpu(nodes, degree)


def _on_gpu(target: Target, nodes: int, degree: int) -> Kernel:
    torch, device, wait = torch_for(target)
    starts = torch.arange(0, nodes * degree + 1, degree, device=device)
    sources = torch.randint(nodes, (nodes * degree,), device=device)
    out_degree = torch.bincount(sources, minlength=nodes).clamp(min=1).float()
    weights = _DAMPING / out_degree[sources]
    links = torch.sparse_csr_tensor(starts, sources, weights, size=(nodes, nodes))
    rank = torch.full((nodes, 1), 1.0 / nodes, device=device)

    def step() -> None:
        rank.copy_(links @ rank + (1.0 - _DAMPING) / nodes)

    return Stepped(step, wait)


def _on_cpu(nodes: int, degree: int) -> Kernel:
    import numpy as np

    sources = np.random.default_rng(1).integers(0, nodes, nodes * degree)
    out_degree = np.maximum(np.bincount(sources, minlength=nodes), 1)
    rank = np.full(nodes, 1.0 / nodes)

    def step() -> None:
        shares = (rank / out_degree)[sources].reshape(nodes, degree)
        rank[:] = _DAMPING * shares.sum(axis=1) + (1.0 - _DAMPING) / nodes

    return Stepped(step)
