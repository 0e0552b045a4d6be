"""Samples from a child that asks again and again. In: an Inventory. Out: Samples with times, Telemetry over a span.

When a device stops answering, its child is given up, and the others are asked by a new one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pal_slurm.probe.children import ChildFailed, ProbeChild
from pal_slurm.probe.devices import Sample
from pal_slurm.probe.document import Fault, Telemetry
from pal_slurm.probe.inventory import Inventory
from pal_slurm.probe.words import plain


@dataclass(frozen=True, slots=True)
class Timed:
    at: float  # monotonic seconds
    sample: Sample


class Sampler:
    """Asks the devices of an inventory every `interval` seconds; `turn` passes on what came."""

    def __init__(self, inventory: Inventory, interval: float, patience: float = 30.0) -> None:
        self._inventory, self._interval, self._patience = inventory, interval, patience
        self._asked = [found.index for found in inventory.found]
        self._uuids = {found.index: found.device.uuid for found in inventory.found}
        self.faults: list[Fault] = []
        self._next = 0  # position in _asked of the device whose answer comes next
        self._last = time.monotonic()
        self._child: ProbeChild | None = None

    def start(self) -> None:
        if self._asked:
            indices = ",".join(str(index) for index in self._asked)
            self._child = ProbeChild.ours("sample", self._inventory.source, f"{self._interval}", indices)
        self._next, self._last = 0, time.monotonic()

    def fileno(self) -> int | None:
        return self._child.fileno() if self._child else None

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def turn(self) -> list[tuple[str, Timed]]:
        """What has come since the last turn, as (UUID, sample)."""
        if self._child is None:
            return []
        try:
            answers = self._child.ready()
        except ChildFailed as error:
            self._give_up(str(error))
            return []
        now = time.monotonic()
        if answers:
            self._last = now
        elif now - self._last > self._interval + self._patience:
            self._give_up(f"it gave no answer within {self._patience:.0f} s")
        return [(uuid, Timed(now, sample)) for uuid, sample in self._taken(answers)]

    def _taken(self, answers: Sequence[dict[str, Any]]) -> Iterable[tuple[str, Sample]]:
        for answer in answers:
            if "refused" in answer:
                self._fault(None, str(answer["refused"]))
                continue
            index = int(answer["index"])
            if index in self._asked:
                self._next = (self._asked.index(index) + 1) % len(self._asked)
            if "fault" in answer:
                self._fault(self._uuids[index], str(answer["fault"]))
            else:
                yield self._uuids[index], _sample(answer["sample"])

    def _fault(self, uuid: str | None, what: str) -> None:
        fault = Fault(plain(what), uuid)
        if fault not in self.faults:
            self.faults.append(fault)

    def _give_up(self, why: str) -> None:
        """The device whose turn it was is not asked any more."""
        self.end()
        index = self._asked.pop(self._next)
        self._fault(self._uuids[index], f"it is not sampled any more: {why}")
        self.start()


def _sample(fields: dict[str, Any]) -> Sample:
    pids = fields.get("pids")
    return Sample(**{**fields, "reasons": tuple(fields["reasons"]), "pids": None if pids is None else tuple(pids)})


class Background:
    """A Sampler in a thread, for the time of a benchmark."""

    def __init__(self, inventory: Inventory, interval: float, patience: float = 30.0) -> None:
        self._sampler = Sampler(inventory, interval, patience)
        self._kept: dict[str, deque[Timed]] = {d.uuid: deque(maxlen=20_000) for d in inventory.devices}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._work, args=(interval,), daemon=True)

    def __enter__(self) -> Background:
        self._sampler.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sampler.end()

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(self._sampler.faults)

    def _work(self, interval: float) -> None:
        while not self._stop.wait(interval / 2):
            came = self._sampler.turn()
            with self._lock:
                for uuid, timed in came:
                    self._kept[uuid].append(timed)

    def latest(self, uuid: str) -> Sample | None:
        with self._lock:
            kept = self._kept[uuid]
            return kept[-1].sample if kept else None

    def between(self, uuid: str, begun: float, ended: float) -> Telemetry:
        with self._lock:
            return summary([t.sample for t in self._kept[uuid] if begun <= t.at <= ended])


_MEANS = (
    "sm_mhz", "mem_mhz", "power_w", "temperature_c", "util_compute", "util_memory", "sm_active", "dram_active",
    "tensor_active",
)  # fmt: skip


def summary(samples: Sequence[Sample]) -> Telemetry:
    def told(name: str) -> list[float]:
        return [value for sample in samples if (value := getattr(sample, name)) is not None]

    def mean(name: str) -> float | None:
        values = told(name)
        return round(fmean(values), 4) if values else None

    reasons = [reason for sample in samples for reason in sample.reasons]
    return Telemetry(
        samples=len(samples),
        sm_mhz_min=min(told("sm_mhz"), default=None),
        power_w_max=max(told("power_w"), default=None),
        temperature_c_max=max(told("temperature_c"), default=None),
        reasons={reason: round(reasons.count(reason) / len(samples), 4) for reason in sorted(set(reasons))},
        **{name: mean(name) for name in _MEANS},
    )
