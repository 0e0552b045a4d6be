"""A file of scores or run times, read strictly. In: CSV, JSON or JSON-lines bytes. Out: rows, or every fault at once.

One row per GPU and class; or a CSV of one row per GPU, `gpu,node,class_a,class_b ...`, with slots in the order of the
rows. Nothing here looks at the database: a row is judged by itself and by the rows before it.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pal_slurm.errors import BadInput
from pal_slurm.model import APP_NAME
from pal_slurm.store.scores import LEAST_SCORE, MOST_SCORE
from pal_slurm.words import digits

MAX_BYTES = 256_000_000
FIELDS = ("node", "slot", "uuid", "model", "class", "app", "score", "seconds", "measured_at")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{3,95}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,63}")
_CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,31}")
_SLOT = re.compile(r"g?([0-9]{1,3})")
_SHOWN_FAULTS = 50


@dataclass(frozen=True, slots=True)
class Entry:
    """One row: one GPU and one class or application."""

    line: int
    node: str
    slot: int
    uuid: str  # empty: not told
    model: str
    cls: str  # empty: by the application
    app: str
    score: float | None
    seconds: tuple[float, ...]
    measured_at: float | None

    @property
    def place(self) -> tuple[str, int]:
        return self.node, self.slot


class _Bad(Exception):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


Raw = Mapping[str, object]
Rows = Iterator[tuple[int, str, Raw]]  # line, the column that the score stands in, fields


def read_scores(data: bytes, name: str, classes: tuple[str, ...] = (), now: float = math.inf) -> list[Entry]:
    """All rows of the file; BadInput names every fault by file, line and field. `classes`: none: of any name."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name}: larger than {MAX_BYTES} bytes; split it by class")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name}:{data[: error.start].count(10) + 1}: not UTF-8 text (byte {error.start})") from error
    entries: list[Entry] = []
    faults: list[str] = []
    first = text.lstrip()[:1]
    rows = _json_rows(text) if first in ("[", "{") else _csv_rows(text)
    try:
        for line, column, raw in rows:
            try:
                entries.append(_entry(line, raw, classes, now))
            except _Bad as bad:
                field = column if bad.field in ("score", "row") else bad.field
                faults.append(f"{name}:{line}: {field}: {bad}")
    except _Bad as bad:
        faults.append(f"{name}: {bad.field}: {bad}" if bad.field else f"{name}: {bad}")
    faults += [f"{name}:{line}: {field}: {message}" for line, field, message in _contradictions(entries)]
    if not faults and not entries:
        faults.append(f"{name}: holds no rows")
    if faults:
        more = [f"... and {len(faults) - _SHOWN_FAULTS} more"] if len(faults) > _SHOWN_FAULTS else []
        raise BadInput("\n".join([*faults[:_SHOWN_FAULTS], *more]))
    return entries


def _csv_rows(text: str) -> Rows:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    seen: set[str] = set()
    slots: dict[str, int] = {}  # of a file with a row per GPU: the next one of each node
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                wide = _classes_across(header)
                continue
            line, raw = reader.line_num, {f: c.strip() for f, c in zip(header, cells, strict=False) if c.strip()}
            if len(cells) != len(header):
                yield line, "row", {"": f"{len(cells)} cells where the header has {len(header)}"}
            elif not wide:
                yield line, "score", raw
            else:
                gpu, node = raw.get("gpu", ""), raw.get("node", "")
                if gpu in seen:
                    yield line, "gpu", {"": f"{gpu[:40]!r} comes twice"}
                seen.add(gpu)
                slot = slots[node] = slots.get(node, -1) + 1
                for column in wide:
                    of_class = {"node": node, "slot": slot, "class": column[6:].upper()}
                    yield line, column, of_class | {"score": raw.get(column)}
    except csv.Error as error:
        raise _Bad("", f"line {reader.line_num}: not CSV: {error}") from error


def _classes_across(header: Sequence[str]) -> list[str]:
    """The columns of a file with a row per GPU; none: it has a row per GPU and class."""
    if "gpu" not in header or "slot" in header:
        for name in header:
            _field(name)
        return []
    if found := sorted(name for name in header if name.startswith("class_")):
        return found
    raise _Bad("class_a", "missing; a file with one row per GPU has one column per class: class_a, class_b ...")


def _json_rows(text: str) -> Rows:
    """Objects of a list, or one object after the other (JSON lines), each with the line that it begins in."""
    decoder = json.JSONDecoder(object_pairs_hook=_once)
    skip = re.compile(r"[\s,\[\]]*")
    at, line, counted = 0, 1, 0
    while (at := skip.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:100]
            raise _Bad("", f"line {line}: not JSON: {said}") from error
        if not isinstance(value, dict):
            raise _Bad("", f"line {line}: must be a list of objects, one per GPU and class")
        yield line, "score", value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a field is given twice in one object")
    return dict(pairs)


def _field(name: str) -> None:
    if name in FIELDS:
        return
    near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(FIELDS)}"
    raise _Bad(ascii(name[:40])[1:-1] or "an empty name", f"no such field; {hint}")


def _entry(line: int, raw: Raw, classes: tuple[str, ...], now: float) -> Entry:
    if "" in raw:
        raise _Bad("row", str(raw[""]))
    for name in raw:
        _field(name)
    cls, app = _class(raw, classes), _text(raw, "app", APP_NAME)
    if not cls and not app:
        raise _Bad("class", "missing; give a class or an app")
    score, seconds = _score(raw), _seconds(raw)
    if (score is None) == (not seconds):
        raise _Bad("score", "give either a score or seconds (run times), in each row")
    node = _text(raw, "node", _NODE)
    if not node:
        raise _Bad("node", "missing")
    return Entry(
        line, node, _slot(raw), _text(raw, "uuid", _UUID), _text(raw, "model", _MODEL), cls, app, score, seconds,
        _time(raw, now),
    )  # fmt: skip


def _text(raw: Raw, field: str, pattern: re.Pattern[str]) -> str:
    value = raw.get(field)
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _Bad(field, f"{str(value)[:60]!r} is not allowed here")
    return value


def _class(raw: Raw, classes: tuple[str, ...]) -> str:
    value = raw.get("class")
    if value is None or value == "":
        return ""
    if not classes:
        return _text(raw, "class", _CLASS)
    if value not in classes:
        raise _Bad("class", f"{str(value)[:60]!r} is none of the classes {', '.join(classes)}")
    return str(value)


def _slot(raw: Raw) -> int:
    value = raw.get("slot")
    if value is None:
        raise _Bad("slot", "missing; the number of the device in its node, 0 or g0 for the first")
    match = _SLOT.fullmatch(str(value)) if not isinstance(value, (bool, float)) else None
    if match is None or int(match[1]) > 255:
        raise _Bad("slot", f"{str(value)[:60]!r} is no slot; 0 or g0 for the first device, 255 at most")
    return int(match[1])


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _Bad(field, f"{str(value)[:60]!r} is not a number")
    try:
        number = float(value if not isinstance(value, str) or (value.isascii() and "_" not in value) else "")
    except (ValueError, OverflowError):
        raise _Bad(field, f"{str(value)[:60]!r} is not a number") from None
    if math.isnan(number):
        raise _Bad(field, "is NaN")
    if math.isinf(number):
        raise _Bad(field, "is infinite")
    if number <= 0:
        raise _Bad(field, f"{number:g} must be more than zero")
    return number


def _score(raw: Raw) -> float | None:
    if raw.get("score") is None:
        return None
    score = _number("score", raw["score"])
    if not LEAST_SCORE <= score <= MOST_SCORE:
        raise _Bad("score", f"{score:g} can't be true: 1.0 is the median GPU, {LEAST_SCORE}..{MOST_SCORE:g} is taken")
    return score


def _seconds(raw: Raw) -> tuple[float, ...]:
    value = raw.get("seconds")
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.replace(";", " ").split()
    runs = value if isinstance(value, list) else [value]
    return tuple(_number("seconds", run) for run in runs)


def _time(raw: Raw, now: float) -> float | None:
    value = raw.get("measured_at")
    if value is None:
        return None
    try:
        at = float(value) if isinstance(value, (int, float)) or digits(str(value)) else _iso(str(value))  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        raise _Bad(
            "measured_at", f"{str(value)[:60]!r} is no time; write 2026-11-18T02:30:00 or epoch seconds"
        ) from None
    if not 946_684_800 <= at <= now + 3600:  # 2000-01-01
        raise _Bad("measured_at", f"{str(value)[:60]!r} is in the future, or before the year 2000")
    return at


def _iso(text: str) -> float:
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _contradictions(entries: list[Entry]) -> Iterator[tuple[int, str, str]]:
    """The same thing said twice, a card in two places, two cards in one place."""
    said: dict[tuple[str, int, str, str], int] = {}
    place_of: dict[str, Entry] = {}
    card_in: dict[tuple[str, int], Entry] = {}
    for e in entries:
        first = said.setdefault((e.node, e.slot, e.cls, e.app), e.line)
        if first != e.line:
            yield e.line, "class", f"{e.node} slot {e.slot} has this class and app in line {first} already"
        if not e.uuid:
            continue
        other = place_of.setdefault(e.uuid, e)
        if (other.node, other.slot) != (e.node, e.slot):
            yield e.line, "uuid", f"{e.uuid} is on {other.node} slot {other.slot} in line {other.line}"
        there = card_in.setdefault((e.node, e.slot), e)
        if there.uuid != e.uuid:
            yield e.line, "uuid", f"{e.node} slot {e.slot} holds {there.uuid} in line {there.line}"
