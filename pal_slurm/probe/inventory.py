"""Which devices a node has. In: the name of a source. Out: devices, and a sentence for each that does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pal_slurm.probe.children import ChildFailed, ProbeChild
from pal_slurm.probe.document import Device, Fault
from pal_slurm.probe.errors import BadInput, NoDevices
from pal_slurm.probe.words import plain

PATIENCE_S = 30.0  # a driver without persistence mode takes seconds for its first answer


@dataclass(frozen=True, slots=True)
class Found:
    index: int  # how its source counts
    device: Device


@dataclass(frozen=True, slots=True)
class Inventory:
    source: str
    runs_on: str
    found: tuple[Found, ...]
    faults: tuple[Fault, ...]

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(found.device for found in self.found)


def take(source: str, patience: float = PATIENCE_S) -> Inventory:
    """Ask all devices; one that hangs costs `patience` seconds, and its child process."""
    found: list[Found] = []
    faults: list[Fault] = []
    runs_on, first, count = "", 0, 1
    while first < count:
        child = ProbeChild.ours("list", source, str(first))
        try:
            count, runs_on = _opening(child, patience)
            for index, answer in _answers(child, first, count, patience):
                first = index + 1
                if "device" in answer:
                    found.append(Found(index, _device(answer["device"])))
                elif "fault" in answer:
                    faults.append(Fault(plain(str(answer["fault"]))))
        except ChildFailed as error:
            faults.append(Fault(plain(f"device number {first} of {count} can't be asked: {error}")))
            first += 1
        finally:
            child.end()
    return Inventory(source, runs_on, tuple(found), tuple(faults))


def _opening(child: ProbeChild, patience: float) -> tuple[int, str]:
    try:
        answer = child.answer(patience)
    except ChildFailed as error:
        raise NoDevices(f"the devices can't be listed: {error}; does the vendor's own tool answer?") from error
    if "refused" in answer:
        kind = BadInput if answer.get("exit_code") == BadInput.exit_code else NoDevices
        raise kind(str(answer["refused"]))
    return int(answer["count"]), str(answer["runs_on"])


def _answers(child: ProbeChild, first: int, count: int, patience: float) -> Iterator[tuple[int, dict[str, Any]]]:
    for index in range(first, count):
        yield index, child.answer(patience)


def _device(fields: dict[str, Any]) -> Device:
    """Our own child's words, so no suspicion; tuples became lists on the way."""
    return Device(**{**fields, "reasons": tuple(fields["reasons"])})
