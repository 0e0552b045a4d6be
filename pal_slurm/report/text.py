"""Text that is safe to print, and tables. In: rows of values. Out: lines; JSON.

Text that users wrote may hold terminal escapes or line ends: whatever is not printable is shown escaped (P9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import TypeAlias

import msgspec
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"
Row: TypeAlias = "Mapping[str, Value]"
Paint: TypeAlias = "Callable[[Row, str, str], str]"  # row, field, cell as it stands in its column


def shown(value: Value) -> str:
    """One value on one line."""
    if value is None or value == {} or value == ():
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ",".join(f"{shown(k)}={shown(v)}" for k, v in value.items())
    if not isinstance(value, (str, int)):
        return ",".join(map(shown, value))
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


_zone: ContextVar[tzinfo | None] = ContextVar("zone", default=None)  # none: this host's


@contextmanager
def in_utc(wanted: bool = True) -> Iterator[None]:
    """For one answer: other threads of pald answer others meanwhile."""
    before = _zone.set(UTC if wanted else None)
    try:
        yield
    finally:
        _zone.reset(before)


def clock(at: float | None, form: str = "%Y-%m-%d %H:%M") -> str:
    """In local time, unless `in_utc`. A time that no calendar has is a sentence: users choose begin times, limits."""
    if at is None:
        return "-"
    try:
        return datetime.fromtimestamp(at, UTC).astimezone(_zone.get()).strftime(form)
    except (ValueError, OverflowError, OSError):
        return "after the year 9999" if at > 0 else "before the year 1" if at < 0 else "no time"


def age_days(at: float, now: float) -> float:
    return round(max(0.0, now - at) / 86_400.0, 2)


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """To sort by: numbers in names count as numbers, so that n2 comes before n10."""
    return tuple(
        (part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"([0-9]{1,18})", name)
    )


def fold(names: Iterable[str]) -> str:
    """`n1 n2 n3` as `n[1-3]`; never asks the site's group resolver."""
    return str(NodeSet.fromlist(sorted(set(names)), resolver=RESOLVER_NOGROUP))


def folded(rows: Sequence[Row], node: str = "node", into: str = "nodes") -> list[dict[str, Value]]:
    """Rows that differ in their node only become one, with the node set in its place; order of first sight."""
    groups: dict[str, tuple[dict[str, Value], list[str]]] = {}
    for row in rows:
        rest = {key: value for key, value in row.items() if key != node}
        mark = json.dumps([shown(value) for value in rest.values()])
        groups.setdefault(mark, (rest, []))[1].append(str(row[node]))
    return [{into: fold(names), **rest} for rest, names in groups.values()]


def table(rows: Sequence[Row], fields: Sequence[str], paint: Paint | None = None) -> list[str]:
    """A header and one line per row, in columns; numbers to the right. `paint` colours cells of the body."""
    body = [[shown(row.get(field)) for field in fields] for row in rows]
    head = [field.upper() for field in fields]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    numeric = [
        any(isinstance(row.get(field), (int, float)) for row in rows)
        and not any(isinstance(row.get(field), str) for row in rows)
        for field in fields
    ]

    def padded(cells: Sequence[str]) -> list[str]:
        return [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True)]

    def painted(row: Row, cells: Sequence[str]) -> list[str]:
        return [paint(row, f, c) if paint else c for f, c in zip(fields, padded(cells), strict=True)]

    lines = ["  ".join(painted(row, cells)).rstrip() for row, cells in zip(rows, body, strict=True)]
    return ["  ".join(padded(head)).rstrip(), *lines]


def as_json(value: object) -> str:
    return _json(msgspec.to_builtins(value, str_keys=True), 2)


def rows_as_json(rows: Sequence[Row]) -> str:
    """A list with one row per line: ten thousand GPUs are no hundred thousand lines."""
    lines = ",\n  ".join(map(_json, rows))
    return f"[\n  {lines}\n]" if rows else "[]"


def _json(value: object, indent: int | None = None) -> str:
    """Numbers that JSON does not have (NaN, infinity) become null: one of them must not cost the whole answer."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=True, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(msgspec.json.encode(value)), indent=indent, ensure_ascii=True)
