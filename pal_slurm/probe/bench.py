"""The benchmark of a node. In: its inventory and the kernels to run. Out: runs and faults.

    for each round, for each scope (one GPU after the other; all at once), for each kernel, for each GPU:
        cool down -> warm up -> one timed run

Kernels and GPUs take turns, so that a slow quarter of an hour spreads over all of them. The runs with all GPUs at once
tell what a node's cooling, power supply and host cost its GPUs from what is the GPU's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pal_slurm.probe.clock import Clock
from pal_slurm.probe.cooling import CoolDown, cool_down
from pal_slurm.probe.document import Device, Fault, TimedRun
from pal_slurm.probe.errors import ProbeError
from pal_slurm.probe.inventory import Inventory
from pal_slurm.probe.kernels import Spec
from pal_slurm.probe.runner import Runner, Timing, WaitLimits
from pal_slurm.probe.sampling import Background


class Stopped(ProbeError):
    """Somebody wants the node back; what was measured so far is kept."""


@dataclass(frozen=True, slots=True)
class Settings:
    rounds: int = 5
    scopes: tuple[str, ...] = ("gpu", "node")
    warm_s: float = 3.0
    run_s: float = 5.0
    most_s: float = 3600.0
    sample_s: float = 0.2
    cooling: CoolDown = field(default_factory=CoolDown)
    patience: WaitLimits = field(default_factory=WaitLimits)


class Bench:
    def __init__(
        self, inventory: Inventory, kernels: Sequence[Spec], settings: Settings, clock: Clock, samples: Background
    ) -> None:
        self._kernels, self._settings, self._clock, self._samples = kernels, settings, clock, samples
        self._faults: list[Fault] = []
        self._runners: list[Runner] = []
        for device in inventory.devices:
            if device.mig:
                self._faults.append(_fault(device, "MIG is on: the whole GPU can't be measured"))
            else:
                self._runners.append(Runner(device, inventory.runs_on, inventory.source, settings.patience))
        self.runs: list[TimedRun] = []

    @property
    def faults(self) -> list[Fault]:
        return [*self._faults, *(fault for runner in self._runners for fault in runner.faults)]

    def run(self) -> None:
        """All rounds. Interrupted by Stopped, `runs` and `faults` hold what there is."""
        end = self._clock.monotonic() + self._settings.most_s
        try:
            for number in range(self._settings.rounds):
                for scope in self._settings.scopes:
                    for spec in self._kernels:
                        for together in self._groups(scope, spec):
                            if self._clock.monotonic() >= end:
                                said = f"the time of {self._settings.most_s:.0f} s was over in round {number + 1}"
                                self._faults.append(Fault(said))
                                return
                            self._measure(spec, together, scope, number)
        except Stopped as error:
            self._faults.append(Fault(str(error)))
        finally:
            for runner in self._runners:
                runner.end()

    def _groups(self, scope: str, spec: Spec) -> list[list[Runner]]:
        willing = [runner for runner in self._runners if runner.willing(spec)]
        if scope == "gpu":
            return [[runner] for runner in willing]
        return [willing] if len(willing) > 1 else []

    def _measure(self, spec: Spec, together: Sequence[Runner], scope: str, number: int) -> None:
        for runner in together:
            cool_down(lambda uuid=runner.device.uuid: self._temperature(uuid), self._settings.cooling, self._clock)  # type: ignore[misc]
        for runner in together:
            runner.ask_prepare(spec, self._settings.warm_s)
        ready = [runner for runner in together if runner.prepared(spec)]
        for runner in ready:
            runner.ask_run(spec, self._settings.run_s)
        for runner in ready:
            timing = runner.timing(spec)
            if timing is not None:
                self.runs.append(self._run(spec, runner.device.uuid, timing, scope, number))

    def _temperature(self, uuid: str) -> float | None:
        sample = self._samples.latest(uuid)
        return None if sample is None else sample.temperature_c

    def _run(self, spec: Spec, uuid: str, timing: Timing, scope: str, number: int) -> TimedRun:
        return TimedRun(
            app=spec.app,
            uuids=(uuid,),
            scope=scope,
            seconds=timing.seconds,
            measured_at=timing.at,
            round=number,
            steps=timing.steps,
            telemetry=self._samples.between(uuid, timing.begun, timing.ended),
        )


def _fault(device: Device, what: str) -> Fault:
    return Fault(what, device.uuid, device.slot)
