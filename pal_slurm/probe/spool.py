"""Files that others pick up. In: text. Out: a file that is there whole or not at all, also through a power cut."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from pal_slurm.probe.errors import ProbeError


def write(path: Path, text: str) -> None:
    """Write beside and rename; readers look for names without a leading dot."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        settle(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise ProbeError(f"{path}: can't be written: {error.strerror}; is the spool mounted and writable?") from error


def settle(beside: Path, path: Path) -> None:
    """Give a finished file its name, and put the name on disk."""
    beside.rename(path)
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return  # a spool in which users may make files, and list none
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse fsync of a directory
            os.fsync(directory)
    finally:
        os.close(directory)
