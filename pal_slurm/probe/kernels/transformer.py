"""Training steps of a stack of transformer blocks: attention, then a perceptron. In: a Target. Out: a Kernel."""

from __future__ import annotations

from typing import Any

from pal_slurm.probe.kernels import Kernel, KernelOptions, Target
from pal_slurm.probe.timing import Stepped
from pal_slurm.probe.torching import half, torch_for

ABOUT = "transformer training step on random tokens (torch); options: batch, length, width, layers"
_WORDS = 32_000
_HEAD = 64


def prepare(target: Target, argument: str) -> Kernel:
    options = KernelOptions(argument)
    on_gpu = target.runs_on == "cuda"
    batch = options.whole("batch", 16 if on_gpu else 1)
    length = options.whole("length", 512 if on_gpu else 32, low=2)
    width = options.whole("width", 1024 if on_gpu else 64, low=_HEAD)
    layers = options.whole("layers", 12 if on_gpu else 1)
    options.done()
    torch, device, wait = torch_for(target)
    words = _WORDS if on_gpu else 100
    model = _network(torch, words, width - width % _HEAD, layers).to(device)
    tokens = torch.randint(words, (batch, length), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    precision = half(torch, device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with precision():
            guesses = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(guesses.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    return Stepped(step, wait)


def _network(torch: Any, words: int, width: int, layers: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.triple, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            heads = self.triple(self.before(x)).view(batch, length, 3, width // _HEAD, _HEAD)
            q, k, v = heads.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.perceptron(self.between(x))

    return nn.Sequential(nn.Embedding(words, width), *(Block() for _ in range(layers)), nn.Linear(width, words))
