"""Small typed records as JSON text in a column. In: values of the model. Out: text, and back, checked."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from pal_slurm.errors import StoreError

T = TypeVar("T")


def dump(value: object) -> str:
    return msgspec.json.encode(value).decode()


def load(text: str, kind: type[T]) -> T:
    """StoreError when the text is not what that column holds: somebody else wrote it."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"a row of the database can't be read as {getattr(kind, '__name__', kind)}: {error}"
        ) from error
