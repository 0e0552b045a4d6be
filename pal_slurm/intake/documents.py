"""A probe's document as what the store takes. In: Document, the kernels' classes. Out: store.Document, alerts.

What can't be used is a sentence: the whole document is set aside with it, nothing is stored of it in part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pal_slurm.errors import BadInput
from pal_slurm.probe.document import Device, Document, ReduceDocument
from pal_slurm.store import Delivery, Measurement, Sighting
from pal_slurm.store.learned import Baseline, PaceSeen
from pal_slurm.store.nights import Alert

MIB = 1 << 20
NIGHT_VAR = 0.05**2  # of log seconds, between nights and pairs of nodes, however steady one night was


@dataclass(frozen=True, slots=True)
class KernelClasses:
    """Which class each kernel measures: the admin's map wins, then the document, then what kernels usually measure."""

    names: tuple[str, ...]
    told: Mapping[str, str]  # pal.yaml: apps
    usual: Mapping[str, str]  # pal.yaml: profile.kernels
    stored: Mapping[str, str]  # palctl apps set, or measured

    def of(self, app: str, said: str | None) -> str:
        cls = self.told.get(app) or said or self.usual.get(app) or self.stored.get(app)
        if cls is None:
            raise BadInput(f"nobody said which class the kernel {app} measures; run: palctl apps set {app}=A")
        if cls not in self.names:
            raise BadInput(f"the kernel {app} measures class {cls}, which is none of {', '.join(self.names)}")
        return cls


def store_document(document: Document, digest: str, classes: KernelClasses, known: frozenset[str]) -> Delivery:
    """`known`: UUIDs that the store has, whose place need not be told."""
    devices = {device.uuid: device for device in document.devices}
    cls = {kernel.app: classes.of(kernel.app, kernel.cls) for kernel in document.kernels}
    ran = {uuid for run in document.runs for uuid in run.uuids}
    lost = sorted(uuid for uuid in ran if devices[uuid].slot is None and uuid not in known)
    if lost:
        raise BadInput(f"nobody said in which slot {lost[0]} sits ({len(lost)} such); add it to the inventory")
    runs = [
        Measurement(
            uuid=uuid,
            cls=cls[run.app],
            measured_at=run.measured_at,
            app=run.app,
            seconds=run.seconds,
            node=devices[uuid].node,
            scope=run.scope,
            driver=devices[uuid].driver,
            power_cap_w=devices[uuid].power_cap_w,
        )
        for run in document.runs
        for uuid in run.uuids
    ]
    sightings = [
        Sighting(d.uuid, d.node, d.slot, d.model, document.ended_at, d.serial or "")
        for d in document.devices
        if d.slot is not None
    ]
    return Delivery(digest, "probe", sightings, runs, ())


def store_reduces(document: ReduceDocument, digest: str) -> Delivery:
    """All-reduce of a size is an application whose jobs are of these ranks, on so many nodes."""
    shape = f"{document.model}|{len(document.nodes)}|{len(set(document.nodes))}"
    paces = [
        PaceSeen(
            f"all-reduce-{_size(one.bytes)}",
            shape,
            Baseline(math.log(one.seconds), one.spread**2 / one.rounds + NIGHT_VAR, 1),
        )
        for one in document.reduced
    ]
    return Delivery(digest, "probe", (), (), (), paces)


def _size(count: int) -> str:
    return f"{count // MIB}MiB" if count % MIB == 0 else f"{count}B"


def alerts_of(document: Document, now: float) -> Iterator[Alert]:
    """What a diagnostic or the devices themselves complain about: unhealthy is not slow."""
    devices = {device.uuid: device for device in document.devices}
    for check in document.checks:
        if check.outcome != "fail":
            continue
        where = _where(devices[check.uuid]) if check.uuid else "the node"
        said = f"{where}: {check.name} failed{': ' + check.said if check.said else ''}"
        key = f"check:{check.uuid or document.devices[0].node if document.devices else ''}:{check.name}"
        yield Alert(f"{key}:{int(document.ended_at // 86_400)}", "unhealthy", said, now)
    for device in document.devices:
        if device.repair_pending:
            yield Alert(
                f"repair:{device.uuid}", "unhealthy", f"{_where(device)}: memory repairs wait for a reboot", now
            )


def _where(device: Device) -> str:
    slot = "" if device.slot is None else f":{device.slot}"
    return f"{device.node}{slot} ({device.uuid})"
