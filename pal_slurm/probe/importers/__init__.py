"""Results of other tools. In: the bytes of their file and what is known about the nodes. Out: a Document.

An importer is one file in this directory with a function `read(data, book) -> None` that writes into a Book.
"""

from __future__ import annotations

import importlib
import pkgutil

from pal_slurm.probe.document import Document
from pal_slurm.probe.errors import BadInput
from pal_slurm.probe.foreign import Book, Context

__all__ = ["Book", "Context", "bring_in", "names"]


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def bring_in(name: str, data: bytes, context: Context) -> Document:
    book = Book(context)
    importlib.import_module(f"{__name__}.{name}").read(data, book)
    document = book.document()
    if not document.runs and not document.checks:
        why = f": {document.faults[0].what}" if document.faults else ""
        raise BadInput(f"{name}: the file holds no result that belongs to a GPU{why}")
    return document
