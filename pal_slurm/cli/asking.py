"""An ordinary user's question to pald. In: what is asked. Out: pald's answer; the kernel tells pald who asks."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pal_slurm.errors import BadInput, SlurmUnavailable

SOCKET = "PAL_SOCKET"
DEFAULT = Path("/run/pal-slurm/users.sock")
PATIENCE_S = 10.0
MOST_BYTES = 4_000_000


class PaldSaid(msgspec.Struct, frozen=True):
    error: str = ""
    lines: tuple[str, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    records: dict[str, Any] = {}


def socket_path() -> Path:
    return Path(os.environ.get(SOCKET) or DEFAULT)


def ask(question: Mapping[str, str | int]) -> PaldSaid:
    path = socket_path()
    try:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(PATIENCE_S)
            channel.connect(str(path))
            channel.sendall(msgspec.json.encode(question) + b"\n")
            told = bytearray()
            while part := channel.recv(65_536):
                told += part
                if len(told) > MOST_BYTES:
                    raise SlurmUnavailable(f"what answers at {path} is no pald")
    except OSError as error:
        why = "gives no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise SlurmUnavailable(
            f"pald can't be asked at {path}: {why}; on this host it may not run, then ask your admins"
        ) from error
    try:
        heard = msgspec.json.decode(bytes(told), type=PaldSaid)
    except (msgspec.DecodeError, ValueError) as error:
        raise SlurmUnavailable(f"pald's answer at {path} is cut off; try again") from error
    if heard.error:
        raise BadInput(heard.error)
    return heard
