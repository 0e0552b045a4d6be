"""Which GPUs of a node are linked directly (NVLink). In: the `Links=` of a gres.conf. Out: groups by slot, or BadInput.

Each device has a number per device of its node: -1 where it is itself, 0 without a link, else how many links there are.
In a group each GPU has a link to each other. Where links make a mesh (eight GPUs, four links each), the lowest slot
gathers those that it, and all of its group, are linked to; links between groups then count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pal_slurm.errors import BadInput
from pal_slurm.intake.inputs import read_input
from pal_slurm.slots.gres_conf import GresConf, GresDevice, read_gres_conf
from pal_slurm.words import printable

MOST_LINKS = 1000  # between two devices; more is a slip of the pen
_NUMBER = re.compile(r"-1|[0-9]{1,4}")


def links_in(path: str) -> dict[str, tuple[int, ...]]:
    """What this gres.conf tells; nothing where there is none."""
    return linked_groups(read_gres_conf(read_input(path).decode("utf-8", "replace"), path)) if path else {}


def linked_groups(conf: GresConf) -> dict[str, tuple[int, ...]]:
    """Node ("" for lines without NodeName) -> the group of each slot, from 0 on; no node of which nothing is told."""
    told = {node: devices for node, devices in conf.devices.items() if any(device.links for device in devices)}
    return {node: _groups(_matrix(devices)) for node, devices in told.items()}


def members(groups: Sequence[int]) -> list[list[int]]:
    """The slots of each group."""
    return [[slot for slot, group in enumerate(groups) if group == one] for one in dict.fromkeys(groups)]


def _matrix(devices: Sequence[GresDevice]) -> list[list[int]]:
    """[slot][slot] links. The place of a device in all of these lists is where its own has the -1."""
    lists = [_numbers(device, len(devices)) for device in devices]
    place = [numbers.index(-1) for numbers in lists]
    for slot, device in enumerate(devices):
        if place.index(place[slot]) != slot:
            other = devices[place.index(place[slot])]
            raise BadInput(f"{_where(device)}: -1 stands where that of {other.file} does; it is the device itself")
    matrix = [[numbers[column] for column in place] for numbers in lists]
    for slot, device in enumerate(devices):
        for before in range(slot):
            if matrix[slot][before] != matrix[before][slot]:
                raise BadInput(
                    f"{_where(device)}: {matrix[slot][before]} links to {devices[before].file}, which says "
                    f"{matrix[before][slot]}; links go both ways"
                )
    return matrix


def _numbers(device: GresDevice, count: int) -> list[int]:
    where, words = _where(device), device.links.split(",")
    if not device.links:
        raise BadInput(f"{where}: no Links=, and other devices of this node have it; say it of all or of none")
    if device.of_several:
        raise BadInput(f"{where}: Links= is of one device; write a line for each")
    for word in words:
        if not _NUMBER.fullmatch(word) or int(word) > MOST_LINKS:
            raise BadInput(f"{where}: {printable(word, 60)!r} is no number of links: -1 (itself), 0 or more, by comma")
    if len(words) != count:
        raise BadInput(f"{where}: {len(words)} numbers for {count} devices of the node; Links= has one for each")
    if words.count("-1") != 1:
        raise BadInput(f"{where}: {words.count('-1')} times -1; it stands once, where the device itself is")
    return [int(word) for word in words]


def _where(device: GresDevice) -> str:
    return f"{device.where}, {device.file}"


def _groups(matrix: list[list[int]]) -> tuple[int, ...]:
    groups: list[list[int]] = []
    todo = list(range(len(matrix)))
    while todo:
        group: list[int] = []
        for slot in todo:
            if all(matrix[slot][other] > 0 for other in group):
                group.append(slot)
        groups.append(group)
        todo = [slot for slot in todo if slot not in group]
    of = {slot: number for number, group in enumerate(groups) for slot in group}
    return tuple(of[slot] for slot in range(len(matrix)))
