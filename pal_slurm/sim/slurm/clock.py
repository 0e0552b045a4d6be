"""The daemon's clock, by simulated time. In: a Controller. Out: a Clock whose sleep lets the cluster go on."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.sim.slurm.controller import Controller


@dataclass
class SimClock:
    controller: Controller
    ahead_s: float = 0.0  # of slurmctld's own clock

    def now(self) -> float:
        return self.controller.now + self.ahead_s

    def monotonic(self) -> float:
        return self.controller.now

    def sleep(self, seconds: float) -> None:
        self.controller.run_until(self.controller.now + seconds)
