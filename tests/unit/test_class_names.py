"""A class name means one thing in the whole house."""

from __future__ import annotations

import ast
from pathlib import Path

import pal_slurm

PACKAGE = Path(pal_slurm.__file__).parent
# The probe imports no other room, so it has its own of these; they are the same thing.
SAME = {"BadInput", "Clock", "SystemClock"}


def rooms_by_class() -> dict[str, set[str]]:
    rooms: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                rooms.setdefault(node.name, set()).add(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
    return rooms


def test_no_two_rooms_have_a_class_of_one_name() -> None:
    twice = {name: sorted(rooms) for name, rooms in rooms_by_class().items() if len(rooms) > 1}
    assert {name: rooms for name, rooms in twice.items() if name not in SAME} == {}
