"""Files that are there whole or not at all. In: a path, a text. Out: the file in place of what was there.

The text is written beside its target and renamed over it: who reads meanwhile sees the old file, who is killed
meanwhile leaves it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from pal_slurm.errors import BadInput


def check_target(name: str) -> Path:
    """Where that name leads; refused where no file can be put, before anybody works for it."""
    path = Path(name)
    try:
        if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
            raise BadInput(f"{name} is a symbolic link of another user; name another file")
        path = path.resolve()  # a link stays one
        mode = path.stat().st_mode if path.exists() else None
    except (OSError, RuntimeError, ValueError) as error:  # also a loop of links, or a NUL
        raise BadInput(f"{name!r} can't be written: {error}") from error
    if mode is not None and not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise BadInput(f"{name} is {what}; name a file, or - for standard output")
    if not path.parent.is_dir():
        raise BadInput(f"{name} can't be written: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadInput(f"{name} can't be written: no permission to write into {path.parent}")
    return path


def write_whole(path: Path, text: str) -> int:
    """How many bytes were written. The file keeps its mode; a new one gets what the umask allows."""
    data = text.encode()
    beside = None
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask()
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:100]}.", delete=False) as file:
            beside = Path(file.name)
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise BadInput(f"{path} can't be written: {error.strerror}") from error
    finally:
        if beside is not None:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
    return len(data)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
