"""Training steps of a residual convolution network of the ResNet-50 shape. In: a Target. Out: a Kernel."""

from __future__ import annotations

from typing import Any

from pal_slurm.probe.kernels import Kernel, KernelOptions, Target
from pal_slurm.probe.timing import Stepped
from pal_slurm.probe.torching import half, torch_for

ABOUT = "ResNet-50 training step on random images (torch); options: batch, image, depth"
_STAGES = (3, 4, 6, 3)  # bottleneck blocks per stage


def prepare(target: Target, argument: str) -> Kernel:
    options = KernelOptions(argument)
    on_gpu = target.runs_on == "cuda"
    batch = options.whole("batch", 64 if on_gpu else 2, low=2)  # batch norm needs two
    image = options.whole("image", 224 if on_gpu else 32, low=32)
    depth = options.whole("depth", 50 if on_gpu else 14, low=14)
    options.done()
    torch, device, wait = torch_for(target)
    stages = _STAGES if depth >= 50 else (1, 1, 1, 1)
    model = _network(torch, stages).to(device=device, memory_format=torch.channels_last)
    images = torch.randn(batch, 3, image, image, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    precision = half(torch, device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with precision():
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    return Stepped(step, wait)


def _network(torch: Any, stages: tuple[int, ...]) -> Any:
    nn = torch.nn

    def convolution(inside: int, outside: int, size: int, stride: int = 1) -> list[Any]:
        layer = nn.Conv2d(inside, outside, size, stride, padding=size // 2, bias=False)
        return [layer, nn.BatchNorm2d(outside)]

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inside: int, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                *convolution(inside, width, 1), nn.ReLU(inplace=True),
                *convolution(width, width, 3, stride), nn.ReLU(inplace=True),
                *convolution(width, 4 * width, 1),
            )  # fmt: skip
            same = inside == 4 * width and stride == 1
            self.past = nn.Identity() if same else nn.Sequential(*convolution(inside, 4 * width, 1, stride))

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.past(x))

    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for i, blocks in enumerate(stages):
        width = 64 * 2**i
        for j in range(blocks):
            layers.append(Block(inside, width, 2 if i and not j else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))
