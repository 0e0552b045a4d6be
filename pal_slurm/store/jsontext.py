"""Small typed records as JSON text in a column. In: values of the model. Out: text, and back, checked."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from pal_slurm.errors import StoreError
from pal_slurm.words import printable

T = TypeVar("T")


def dump(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half of a character in a text of somebody's: it becomes a question mark
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return text.encode("utf-8", "replace").decode()


def load(text: str, kind: type[T]) -> T:
    """StoreError when the text is not what that column holds: somebody else wrote it."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        said = printable(str(error), 200)
        raise StoreError(
            f"a row of the database can't be read as {getattr(kind, '__name__', kind)}: {said}; look with: "
            "palctl db check, and restore a backup if it is damaged"
        ) from error
