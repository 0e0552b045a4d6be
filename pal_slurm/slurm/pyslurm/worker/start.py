"""Bringing pyslurm up. In: a slurm.conf. Out: the pyslurm module, what it was built for, and what it loaded.

Importing pyslurm without a readable slurm.conf retries for a minute and then exits the process, and an unknown key in
it exits at once; so initialising is deferred, checked for what can be checked, and left to the daemon's deadline.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from pathlib import Path
from typing import Any

DEFAULT_CONF = "/etc/slurm/slurm.conf"


class StartError(Exception):
    """Why pyslurm can't be used here; the text is a sentence."""


def import_pyslurm() -> Any:
    os.environ["PYSLURM_DISABLE_AUTO_INIT"] = "1"
    os.environ["SLURM_BITSTR_LEN"] = "0"  # else libslurm cuts long lists of array tasks short
    try:
        import pyslurm
    except ImportError as error:
        raise StartError(
            f"pyslurm can't be imported: {error}. Build it for this Slurm with scripts/build-pyslurm, "
            "again after every upgrade of Slurm"
        ) from error
    if not hasattr(pyslurm.Job, "update_fields"):
        raise StartError("this pyslurm lacks the fields that scripts/build-pyslurm adds; build it with that")
    return pyslurm


def check_versions(pyslurm: Any) -> tuple[str, str]:
    """(built for, loaded); another release of libslurm than the one built for is refused, another micro is not."""
    built = "{}.{:02d}.{}".format(*pyslurm.slurm_api_version())
    loaded = _loaded_version()
    if loaded.rpartition(".")[0] != built.rpartition(".")[0]:
        raise StartError(
            f"pyslurm was built for Slurm {built}, but libslurm is of Slurm {loaded}; run scripts/build-pyslurm again"
        )
    return built, loaded


def _loaded_version() -> str:
    """What libslurm says of itself. It can only print it: descriptor 1 is turned to a pipe for that moment."""
    said: list[bytes] = []
    read_end, write_end = os.pipe()
    reader = threading.Thread(target=lambda: said.append(os.read(read_end, 200)))
    kept = os.dup(1)
    try:
        reader.start()
        os.dup2(write_end, 1)
        libslurm = ctypes.CDLL(None)  # pyslurm loads it with RTLD_GLOBAL
        libslurm.print_slurm_version()
        libslurm.fflush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(write_end)
        reader.join()
        os.close(read_end)
    found = re.search(rb"(\d+\.\d+\.\d+)", said[0] if said else b"")
    if not found:
        raise StartError("libslurm does not say its version")
    return found[1].decode("ascii")


def initialise(pyslurm: Any, conf: str | None) -> str:
    """Reads slurm.conf; returns the one that is used. An unknown key in it ends this process, with words on stderr."""
    path = conf or os.environ.get("SLURM_CONF") or DEFAULT_CONF
    given = conf or os.environ.get("SLURM_CONF")
    if given and not Path(given).is_file():
        raise StartError(f"{given} does not exist")
    if given:
        os.environ["SLURM_CONF"] = given
    pyslurm.slurm_init(given)
    return path
