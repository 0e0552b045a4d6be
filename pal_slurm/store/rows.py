"""Rows as records. In: a record's type, the tables that its fields are columns of. Out: columns; values of a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from sqlalchemy import Column, Table

T = TypeVar("T")


def names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]


def columns(kind: type, *tables: Table) -> list[Column[Any]]:
    """A column per field, in their order: of the first of the tables that has one of that name."""
    return [next(table.c[name] for table in tables if name in table.c) for name in names(kind)]


def values(record: object, *but: str) -> dict[str, Any]:
    """By the names of the fields."""
    return {name: getattr(record, name) for name in names(type(record)) if name not in but}


def chunks(every: Sequence[T], size: int = 500) -> Iterable[Sequence[T]]:
    """Databases bound the number of parameters of one statement."""
    return (every[i : i + size] for i in range(0, len(every), size))
