"""Column types: the store's door. In: any value that Slurm or a user said. Out: one that every database takes.

What does not fit is clipped, and the log says so. A query goes through the same types as the row that it looks for.
"""

from __future__ import annotations

import logging
import math
import sys
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, Column, Dialect, Double, Integer, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

from pal_slurm.errors import StoreError
from pal_slurm.store.jsontext import dump, load
from pal_slurm.words import printable

GREATEST = 2**63 - 1
MOST = 4 << 20  # characters of one text: MariaDB takes statements of 16 MiB
LONG = Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")  # there Text is 64 KB
ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself for INTEGER only
T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
log = logging.getLogger("pald")
told: Counter[str] = Counter()  # by column


class _Clipping(TypeDecorator[T]):
    """`place` names the column in the log; `placed` sets it."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok = True
    place = "a value"

    def clipped(self, value: object, kept: T | None) -> T | None:
        """Say that `kept` is stored instead: the 1st, 2nd, 4th ... time."""
        told[self.place] += 1
        if (times := told[self.place]) & (times - 1) == 0:
            given = f"{len(value)} characters" if isinstance(value, str) else f"{value:.6g}"
            log.warning(
                "%s: %s can't be stored as they are; kept: %s (%d times by now)",
                self.place, given, printable(str(kept), 100), times,
            )  # fmt: skip
        return kept


class WholeNumber(_Clipping[int]):
    """A whole number of 64 bits. `small`: SQLite calls it INTEGER, which makes no difference there."""

    impl = BigInteger
    cache_ok = True  # SQLAlchemy looks in each class

    def __init__(self, *, small: bool = False) -> None:
        super().__init__()
        self.small = small

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Integer() if self.small and dialect.name == "sqlite" else BigInteger())

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        if value is None or -GREATEST <= value <= GREATEST:
            return value
        return self.clipped(value, None if value != value else GREATEST if value > 0 else -GREATEST)


class Real(_Clipping[float]):
    """A finite number; MariaDB knows no other."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        if value is None:
            return None
        if -sys.float_info.max <= value <= sys.float_info.max:
            return float(value)
        return self.clipped(value, None if value != value else math.copysign(sys.float_info.max, value))


class Words(_Clipping[str]):
    """Text of at most so many characters, none of which a database refuses: no NUL, no half of a character."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or (len(value) <= self.length and storable(value)):
            return value
        return self.clipped(value, whole(value)[: self.length])


class Prose(_Clipping[str]):
    """The same of a long text. `cut`: else one that is too long is none, and its row can't be written."""

    impl = LONG
    cache_ok = True

    def __init__(self, length: int = MOST, *, cut: bool = True) -> None:
        super().__init__()
        self.length = length
        self.cut = cut

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or (len(value) <= self.length and storable(value)):
            return value
        return self.clipped(value, whole(value)[: self.length] if self.cut else within(value))


class Word(TypeDecorator[E], Generic[E]):
    """One of a list of words."""

    impl = String
    cache_ok = True

    def __init__(self, kind: type[E], length: int) -> None:
        super().__init__(length)
        self.kind = kind
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        try:
            return None if value is None else self.kind(value)
        except ValueError as error:
            said = printable(str(value), 40)
            raise StoreError(f"a row of the database says {said!r} where a {self.kind.__name__} stands") from error


class Json(TypeDecorator[T], Generic[T]):
    """A small typed value as JSON text; a row whose value is too large can't be written."""

    impl = LONG
    cache_ok = True

    def __init__(self, kind: type[T]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: T | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        text = dump(dict(value) if isinstance(value, Mapping) else value)
        return within(text)

    def process_result_value(self, value: str | None, dialect: Dialect) -> T | None:
        return None if value is None else load(value, self.kind)


def within(text: str) -> str:
    """What can't be cut: ValueError, where it is too long."""
    if len(text) > MOST:
        raise ValueError(f"{len(text)} characters are more than a row may hold ({MOST})")
    return whole(text)


def storable(text: str) -> bool:
    return whole(text) is text


def whole(text: str) -> str:
    """The same without what no database takes: NUL, and halves of characters (surrogates)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "replace").decode()
    return text.replace("\0", "\ufffd") if "\0" in text else text


def placed(table: str, column: Column[Any]) -> None:
    """The column's type says its name where it clips."""
    if isinstance(column.type, _Clipping):
        column.type.place = f"{table}.{column.name}"
