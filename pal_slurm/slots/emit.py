"""`palctl slots emit`. In: nodes as Slurm shows them, the gres.conf there is. Out: gres.conf and slurm.conf lines.

One line per device in order of minor numbers, types g0, g1 ...; Cores and Links are kept. The GPU model, which a type
said before, becomes a feature; users never see slots, job_submit.lua turns `gpu:a100:2` into `gpu:2` and that feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pal_slurm.slots.gres_conf import GresConf, GresDevice
from pal_slurm.slurm.gres import gpus_in
from pal_slurm.slurm.nodes import NodeRecord
from pal_slurm.slurm.nodeset import fold
from pal_slurm.words import digits


@dataclass(frozen=True, slots=True)
class Emitted:
    gres_conf: tuple[str, ...]
    slurm_conf: tuple[str, ...]
    models: tuple[str, ...]  # for pal.yaml and pal_lua.conf
    remarks: tuple[str, ...]  # what to do by hand


def emit(nodes: Sequence[NodeRecord], conf: GresConf) -> Emitted:
    alike: dict[tuple[tuple[GresDevice, ...], str], list[str]] = {}
    models: list[str] = []
    for node in nodes:
        kinds = [item for item in gpus_in(node.gres) if item.n]
        if not kinds:
            continue
        devices = conf.devices.get(node.name) or conf.devices.get("") or _guessed(sum(item.n for item in kinds))
        named = next((i.type for i in kinds if i.type), "") or next((d.type for d in devices if d.type), "")
        model = "" if _is_slot(named) else named
        alike.setdefault((tuple(devices), model), []).append(node.name)
        if model and model not in models:
            models.append(model)
    return Emitted(
        gres_conf=("AutoDetect=off", *conf.others, *_gres_lines(alike)),
        slurm_conf=("GresTypes=gpu", *_node_lines(alike)),
        models=tuple(models),
        remarks=tuple(_remarks(nodes, conf, models)),
    )


def _is_slot(name: str) -> bool:
    return name[:1] == "g" and digits(name[1:])


def _guessed(count: int) -> list[GresDevice]:
    return [GresDevice(f"/dev/nvidia{minor}") for minor in range(count)]


def _gres_lines(alike: dict[tuple[tuple[GresDevice, ...], str], list[str]]) -> Iterator[str]:
    for (devices, _), names in alike.items():
        for slot, device in enumerate(devices):
            extra = (f" Cores={device.cores}" if device.cores else "") + (
                f" Links={device.links}" if device.links else ""
            )
            yield f"NodeName={fold(names)} Name=gpu Type=g{slot} File={device.file}{extra}"


def _node_lines(alike: dict[tuple[tuple[GresDevice, ...], str], list[str]]) -> Iterator[str]:
    for (devices, model), names in alike.items():
        gres = ",".join(f"gpu:g{slot}:1" for slot in range(len(devices)))
        yield (
            f"NodeName={fold(names)} Gres={gres}" + (f" Feature={model}" if model else "") + "  # beside its other keys"
        )


def _remarks(nodes: Sequence[NodeRecord], conf: GresConf, models: Sequence[str]) -> Iterator[str]:
    for line in conf.autodetect:
        yield f"take out `{line}`: AutoDetect finds types by the cards' names, and slots would clash with them"
    if not conf.devices:
        yield (
            "gres.conf names no device files: /dev/nvidia0 and on were assumed; compare with `nvidia-smi -q | grep "
            "Minor` on one node of each kind, and add Cores= and Links= from `nvidia-smi topo -m`"
        )
    mixed = [n.name for n in nodes if len({i.type for i in gpus_in(n.gres) if i.type and not _is_slot(i.type)}) > 1]
    if mixed:
        yield f"{fold(mixed)}: several GPU models in one node, which no feature can tell apart: leave these as they are"
    if models:
        yield f"in pal_lua.conf: slots = yes, models = {','.join(models)}"
        yield f"in pal.yaml: cluster.models: [{', '.join(models)}]"
    yield "restart slurmctld and all slurmd while no job runs on these nodes: Slurm can't change GRES under a job"
