"""Rows as records. In: a record's type, the tables that its fields are columns of. Out: columns; values of a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Dialect, Table, Text
from sqlalchemy.types import TypeDecorator

from pal_slurm.store.jsontext import dump, load

T = TypeVar("T")


class Json(TypeDecorator[T], Generic[T]):
    """A small typed value as JSON text."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[T]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: T | None, dialect: Dialect) -> str | None:
        return None if value is None else dump(dict(value) if isinstance(value, Mapping) else value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> T | None:
        return None if value is None else load(value, self.kind)


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
