"""gres.conf and the GPUs of the nodes. In: a Site. Out: advice: no devices, two files that say different things."""

from __future__ import annotations

from collections.abc import Iterator

from pal_slurm.doctor.advice import Advice, mend, note, ok
from pal_slurm.doctor.site import Site
from pal_slurm.doctor.slurm_conf import SlurmConf
from pal_slurm.errors import BadInput
from pal_slurm.slots.check import Level, check_nodes, keeps_types, kind_of
from pal_slurm.slots.gres_conf import GresConf, read_gres_conf
from pal_slurm.slots.links import linked_groups
from pal_slurm.slurm.gres import gpus_in
from pal_slurm.slurm.nodeset import fold

STEP = 30
TITLE = "gres.conf"
EMIT = "palctl slots emit --gres-conf {}"
THEN = "restart slurmctld and all slurmd while no job runs on these nodes"


def look(site: Site) -> Iterator[Advice]:
    conf = site.conf
    if conf is None:
        return
    path = site.beside("gres.conf")
    text = site.text(path)
    if text is None:
        yield mend("there is no gres.conf that can be read", "AutoDetect=nvml", path, THEN)
        return
    try:
        gres = read_gres_conf(text, path)
    except BadInput as error:
        yield mend(f"{error}", "NodeName=NODES Name=gpu File=/dev/nvidia0    # a line per device", path, THEN)
        return
    yield from _kinds(conf, path)
    yield from _agree(conf, gres, path)
    try:
        linked_groups(gres)
    except BadInput as error:
        yield mend(f"{error}", "Links=-1,4,0,0    # links to each device of the node, -1 for itself", path, THEN)


def _kinds(conf: SlurmConf, path: str) -> Iterator[Advice]:
    for found in check_nodes(conf.nodes):
        if found.level is Level.WRONG:
            yield mend(found.said, EMIT.format(path), f"{path} and {conf.file}", THEN)
        else:
            yield ok(found.said) if found.level is Level.FINE else note(found.said)
    if not has_slots(conf):
        return
    weights = {name: keys.get("tresbillingweights", "") for name, keys in conf.partitions.items()}
    named = {key: conf.value(key) for key in ("AccountingStorageTRES", "PriorityWeightTRES")}
    for found in keeps_types(named, weights):
        place = next((one.place for key in named if found.said.startswith(key) and (one := conf.get(key))), conf.file)
        yield mend(found.said, "limits and bills on gres/gpu, without a type; or go back to types", place)


def has_slots(conf: SlurmConf) -> bool:
    return any(kind_of(node) in ("slots", "order") for node in conf.nodes)


def _agree(conf: SlurmConf, gres: GresConf, path: str) -> Iterator[Advice]:
    if gres.autodetect and has_slots(conf):
        yield mend(
            f"{gres.autodetect[0]}: it finds types by the cards' names, and slots clash with them",
            "AutoDetect=off", f"{path}, in place of `{gres.autodetect[0]}`", THEN,
        )  # fmt: skip
    wrong: dict[tuple[int, int], list[str]] = {}
    for node in conf.nodes:
        told = sum(item.n for item in gpus_in(node.gres))
        named = len(gres.devices.get(node.name) or gres.devices.get("") or ())
        if told and (named or not gres.autodetect) and told != named:
            wrong.setdefault((told, named), []).append(node.name)
    for (told, devices), names in wrong.items():
        yield mend(
            f"{fold(names)}: slurm.conf says {told} GPUs, gres.conf names {devices} devices: Slurm drains such nodes",
            EMIT.format(path), f"{path} or {conf.file}", THEN,
        )  # fmt: skip
