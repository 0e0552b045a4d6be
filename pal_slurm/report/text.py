"""Text that is safe to print, and tables. In: rows of values. Out: lines; JSON.

Text that users wrote may hold terminal escapes or line ends: whatever is not printable is shown escaped (P9).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None"
Row: TypeAlias = "Mapping[str, Value]"


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


def table(rows: Sequence[Row], fields: Sequence[str]) -> list[str]:
    """A header and one line per row, in columns; numbers to the right."""
    body = [[shown(row.get(field)) for field in fields] for row in rows]
    head = [field.upper() for field in fields]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    numeric = [
        any(isinstance(row.get(field), (int, float)) for row in rows)
        and not any(isinstance(row.get(field), str) for row in rows)
        for field in fields
    ]

    def line(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if right else c.ljust(w) for c, w, right in zip(cells, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return [line(head), *map(line, body)]


def as_json(value: Value | Sequence[Row]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)
