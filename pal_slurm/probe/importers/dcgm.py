"""`dcgmi diag -r N --json` of DCGM 2, 3 and 4. In: its output. Out: checks: which GPU passed which test.

DCGM judges health, not speed: a GPU that fails is unhealthy. Its releases name GPUs by `gpu_ids` (a list in text),
`gpu_id`, and `entity_id` in the group GPU; release 4 also lists serial numbers, which then tell the card.
"""

from __future__ import annotations

from typing import Any

from pal_slurm.probe.document import Device
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.foreign import Book, json_of, node_name
from pal_slurm.probe.words import digits

_OUTCOMES = {"pass": "pass", "passed": "pass", "warn": "warn", "fail": "fail", "failed": "fail"}


def read(data: bytes, book: Book) -> None:
    record = json_of(data, "dcgmi")
    inner = [value for key, value in record.items() if "DCGM" in key and isinstance(value, dict)]
    body = inner[0] if inner else record
    categories = body.get("test_categories")
    if not isinstance(categories, list):
        raise BadInput("dcgmi: the file has no test_categories; was it written by `dcgmi diag -r N --json`?")
    node = node_name(book.context.node, "dcgmi")
    serials = _serials(body)
    for category in categories:
        for test in _dicts(category, "tests"):
            for result in _dicts(test, "results"):
                _result(str(test.get("name", "unnamed")), result, node, serials, book)


def _result(name: str, result: dict[str, Any], node: str, serials: dict[int, str], book: Book) -> None:
    outcome = _OUTCOMES.get(str(result.get("status", "")).lower(), "skip")
    said = _said(result)
    if str(result.get("entity_group", "GPU")).upper() != "GPU":
        book.check(name, outcome, None, said)
        return
    for index in _indices(result):
        book.check(name, outcome, _device(index, node, serials, book), said)


def _device(index: int, node: str, serials: dict[int, str], book: Book) -> Device | None:
    return book.by_serial(serials.get(index, "")) or book.at(node, index)


def _indices(result: dict[str, Any]) -> list[int]:
    told = result.get("gpu_id", result.get("gpu_ids", result.get("entity_id", "")))
    words = [str(word) for word in told] if isinstance(told, list) else str(told).replace(",", " ").split()
    return [int(word) for word in words if digits(word)]


def _serials(body: dict[str, Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for group in _dicts(body, "entity_groups"):
        if str(group.get("entity_group", "")).upper() == "GPU":
            for entity in _dicts(group, "entities"):
                if digits(str(entity.get("entity_id", ""))):
                    found[int(entity["entity_id"])] = str(entity.get("serial_num", ""))
    listed = body.get("GPU Device Serials")
    if isinstance(listed, dict):
        found |= {int(index): str(serial) for index, serial in listed.items() if digits(str(index))}
    return found


def _said(result: dict[str, Any]) -> str:
    parts = []
    for name in ("warnings", "warning", "info"):
        value = result.get(name)
        for each in value if isinstance(value, list) else [value]:
            parts.append(str(each.get("warning", "")) if isinstance(each, dict) else str(each or ""))
    return "; ".join(filter(None, parts))


def _dicts(record: object, name: str) -> list[dict[str, Any]]:
    members = record.get(name) if isinstance(record, dict) else None
    return [member for member in members if isinstance(member, dict)] if isinstance(members, list) else []
