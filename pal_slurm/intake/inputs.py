"""Files that a command is given. In: a path, or `-`. Out: its bytes, or a sentence; never more than fits the memory."""

from __future__ import annotations

import sys
from pathlib import Path

from pal_slurm.errors import BadInput

MOST = 64 << 20


def read_input(name: str) -> bytes:
    """What is in a file, or on standard input."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MOST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MOST + 1)
    except OSError as error:
        raise BadInput(f"{name} can't be read: {error.strerror}") from error
    if len(data) > MOST:
        raise BadInput(f"{name} can't be read: it is larger than {MOST >> 20} MB; give a part of it, or another file")
    return data
