"""One GPU's child process for kernels. In: what to run. Out: a Run, or a fault; a GPU that hangs is given up.

A kernel that said why it can't run is not tried again there. A child that hung or died is replaced; after
`MOST_DEATHS` of them the GPU is left alone for the rest of the night.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pal_slurm.probe.children import ChildFailed, ProbeChild
from pal_slurm.probe.document import Device, Fault
from pal_slurm.probe.kernels import Spec
from pal_slurm.probe.words import plain

MOST_DEATHS = 2


@dataclass(frozen=True, slots=True)
class WaitLimits:
    prepare_s: float = 180.0  # importing torch from a busy file system, cuDNN choosing its algorithms
    run_s: float = 120.0  # beyond the time that the run was to take


@dataclass(frozen=True, slots=True)
class Timing:
    """What the child measured; begun and ended are the machine's monotonic clock, the same in all its processes."""

    seconds: float
    steps: int
    at: float
    begun: float
    ended: float


class Runner:
    def __init__(self, device: Device, runs_on: str, source: str, patience: WaitLimits) -> None:
        self.device = device
        self._runs_on, self._source, self._patience = runs_on, source, patience
        self._child: ProbeChild | None = None
        self._deaths = 0
        self._refused: set[str] = set()
        self._asked: tuple[str, float] | None = None  # what the child is busy with: (app, seconds to wait)
        self.faults: list[Fault] = []

    def willing(self, spec: Spec) -> bool:
        return self._deaths < MOST_DEATHS and spec.text not in self._refused

    def ask_prepare(self, spec: Spec, warm: float) -> None:
        order: dict[str, object] = {"prepare": spec.name, "argument": spec.argument, "uuid": self.device.uuid}
        order |= {"runs_on": self._runs_on, "source": self._source, "warm": warm}
        self._send(spec, order, self._patience.prepare_s + warm)

    def ask_run(self, spec: Spec, seconds: float) -> None:
        self._send(spec, {"run": seconds}, self._patience.run_s + seconds)

    def prepared(self, spec: Spec) -> bool:
        return self._answer(spec) is not None

    def timing(self, spec: Spec) -> Timing | None:
        answer = self._answer(spec)
        return None if answer is None else Timing(**answer)

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _send(self, spec: Spec, order: dict[str, object], patience: float) -> None:
        self._asked = None
        try:
            if self._child is None:
                self._child = ProbeChild.ours("kernel", env=self._env())
            self._child.send(order)
            self._asked = (spec.app, patience)
        except (ChildFailed, OSError) as error:
            self._died(spec, str(error))

    def _answer(self, spec: Spec) -> dict[str, Any] | None:
        if self._child is None or self._asked is None:
            return None
        try:
            answer = self._child.answer(self._asked[1])
        except ChildFailed as error:
            self._died(spec, str(error))
            return None
        if "fault" in answer:
            self._refused.add(spec.text)
            self._say(spec, str(answer["fault"]))
            return None
        return answer

    def _died(self, spec: Spec, why: str) -> None:
        self.end()
        self._deaths += 1
        self._say(spec, f"the process that ran {spec.text} here was lost: {why}")
        if self._deaths >= MOST_DEATHS:
            self._say(None, f"{self._deaths} processes were lost on this GPU; nothing more is run on it")

    def _say(self, spec: Spec | None, what: str) -> None:
        app = spec.app if spec else None
        self.faults.append(Fault(plain(what), self.device.uuid, self.device.slot, app))

    def _env(self) -> dict[str, str]:
        """The child sees its own GPU only; torch counts it as number 0."""
        if self._runs_on != "cuda":
            return {"OMP_NUM_THREADS": "1"}
        if self.device.source == "amd":
            return {"ROCR_VISIBLE_DEVICES": self.device.uuid}
        return {"CUDA_VISIBLE_DEVICES": self.device.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
