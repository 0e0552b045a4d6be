"""CSV: `node,gpu_uuid,bench,value,unit,when`, and optionally `slot,model,scope`. In: bytes. Out: runs.

`when` is an epoch or an ISO time; `unit` is a time (s, ms, us, ns) or a rate (GFLOPS, GB/s, it/s ...).
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

from pal_slurm.probe import limits
from pal_slurm.probe.document import SCOPES, Device
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.foreign import Book, node_name, number_in, seconds_of, uuid_of
from pal_slurm.probe.words import plain

_NEEDED = {"bench", "value", "unit"}
_KNOWN = _NEEDED | {"node", "gpu_uuid", "when", "slot", "model", "scope"}


def read(data: bytes, book: Book) -> None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"csv: no UTF-8 at byte {error.start}") from error
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        columns = {name.strip() for name in rows.fieldnames or () if name}
    except csv.Error as error:
        raise BadInput(f"csv: line 1: {error}") from error
    if not columns >= _NEEDED or columns - _KNOWN:
        raise BadInput(
            f"csv: line 1: the columns are {', '.join(sorted(columns))}; wanted: {', '.join(sorted(_KNOWN))}"
        )
    counts: dict[tuple[str, str], int] = {}
    try:
        for row in rows:
            cells = {(k or "").strip(): v.strip() for k, v in row.items() if isinstance(v, str)}
            _row(cells, rows.line_num, book, counts)
    except csv.Error as error:
        raise BadInput(f"csv: line {rows.line_num}: {error}") from error


def _row(cells: dict[str, str], line: int, book: Book, counts: dict[tuple[str, str], int]) -> None:
    unit = cells.get("unit", "")
    seconds = seconds_of(_number(cells, "value", line), unit)
    if seconds is None:
        raise BadInput(
            f"csv: line {line}: {cells.get('value')!r} {unit!r} is no time (s, ms, us, ns) and no rate (GB/s)"
        )
    scope = cells.get("scope") or "gpu"
    if scope not in SCOPES:
        raise BadInput(f"csv: line {line}: scope {scope!r} is none of {', '.join(SCOPES)}")
    device = _device(cells, line, book)
    if device is None:
        return
    key = (device.uuid, cells.get("bench", ""))
    counts[key] = counts.get(key, -1) + 1
    book.run(cells.get("bench", ""), [device], scope, seconds, _when(cells.get("when", ""), line, book), counts[key])


def _device(cells: dict[str, str], line: int, book: Book) -> Device | None:
    node = node_name(cells.get("node") or book.context.node, f"csv: line {line}")
    slot = int(_number(cells, "slot", line)) if cells.get("slot") else None
    if slot is not None and not limits.SLOT[0] <= slot <= limits.SLOT[1]:
        raise BadInput(f"csv: line {line}: slot {slot} is outside {limits.SLOT[0]} to {limits.SLOT[1]}")
    if cells.get("gpu_uuid"):
        uuid = uuid_of(cells["gpu_uuid"])
        if uuid is None:
            raise BadInput(f"csv: line {line}: gpu_uuid {plain(cells['gpu_uuid'], 60)!r} is no UUID")
        return book.by_uuid(uuid, node, slot, plain(cells.get("model", ""), 64))
    if slot is None:
        raise BadInput(f"csv: line {line}: neither gpu_uuid nor slot is set")
    return book.slot(node, slot)


def _number(cells: dict[str, str], name: str, line: int) -> float:
    number = number_in(cells.get(name, ""))
    if number is None:
        raise BadInput(f"csv: line {line}: {name} {plain(cells.get(name, ''), 40)!r} is no number")
    return number


def _when(text: str, line: int, book: Book) -> float:
    if not text:
        return book.context.measured_at
    if (epoch := number_in(text)) is not None:
        return epoch
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadInput(f"csv: line {line}: when {plain(text, 40)!r} is neither an epoch nor an ISO time") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
