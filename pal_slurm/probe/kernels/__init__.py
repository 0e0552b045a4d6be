"""What is run on a GPU. In: `[APP=]NAME[@CLASS][:ARGUMENT]`. Out: a Kernel.

A kernel is one file in this directory with ABOUT (a sentence) and `prepare(target, argument) -> Kernel`. It runs in a
child process that sees one GPU only. Examples: `resnet@A`, `gemm:n=4096`, `mine=command@B:./bench -x`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from typing import Protocol

from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.words import APP, CLASS, app_name

_SPEC = re.compile(
    r"(?:(?P<app>[^=:@]+)=)?(?P<name>[a-z][a-z0-9_]*)(?:@(?P<cls>[^:]+))?(?::(?P<argument>.*))?", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Done:
    """So many steps, and the seconds from the first one's start to the last one's end."""

    seconds: float
    steps: int


class Kernel(Protocol):
    def run(self, steps: int) -> Done:
        """Do that many steps, or fewer where it can't be helped."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """The device to run on. It is the only one that the process sees."""

    uuid: str
    runs_on: str  # cuda (also for ROCm) or cpu
    source: str  # of devices, with its argument


@dataclass(frozen=True, slots=True)
class Spec:
    """A kernel as asked for on the command line."""

    app: str
    name: str
    cls: str | None
    argument: str
    text: str


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def about(name: str) -> str:
    return str(importlib.import_module(f"{__name__}.{name}").ABOUT)


def parse(text: str) -> Spec:
    match = _SPEC.fullmatch(text)
    if match is None or match["name"] not in names():
        raise BadInput(f"--kernel {text!r}: not [APP=]NAME[@CLASS][:ARGUMENT] with a NAME of {', '.join(names())}")
    name, argument = match["name"], match["argument"] or ""
    cls = match["cls"]
    if name == "fake" and cls is None:
        cls = argument.partition(",")[0] or "A"
    plain_name = (
        argument.split("/")[-1].split(" ")[0] if name == "command" else text.partition("@")[0].partition(",")[0]
    )
    app = match["app"] or app_name(plain_name if name in ("command", "fake") else name)
    if not APP.fullmatch(app) or (cls is not None and not CLASS.fullmatch(cls)):
        raise BadInput(
            f"--kernel {text!r}: the application's or the class's name has characters that are not allowed; "
            "write [APP=]NAME[@CLASS][:ARGUMENT], as resnet@A:batch=8"
        )
    return Spec(app, name, cls, argument, text)


def prepare(name: str, target: Target, argument: str) -> Kernel:
    kernel: Kernel = importlib.import_module(f"{__name__}.{name}").prepare(target, argument)
    return kernel


class KernelOptions:
    """`key=value,key=value` of a kernel's argument, each with a default; what nobody asked for is an error."""

    def __init__(self, argument: str) -> None:
        self._left: dict[str, str] = {}
        for item in filter(None, argument.split(",")):
            key, equals, value = item.partition("=")
            if not equals:
                raise BadInput(f"the kernel's option {item!r} is not of the form key=value")
            self._left[key] = value

    def number(self, key: str, default: float, low: float = 0.0, high: float = 1e12) -> float:
        text = self._left.pop(key, "")
        try:
            value = float(text) if text else default
        except ValueError as error:
            raise BadInput(f"the kernel's option {key}={text!r} is no number") from error
        if not low <= value <= high:
            raise BadInput(f"the kernel's option {key}={value:g} is outside {low:g} to {high:g}")
        return value

    def whole(self, key: str, default: int, low: int = 1) -> int:
        return int(self.number(key, default, low))

    def done(self) -> None:
        if self._left:
            raise BadInput(f"the kernel has no option {', '.join(sorted(self._left))}")
