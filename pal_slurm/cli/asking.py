"""An ordinary user's question to pald. In: what is asked. Out: an answer about his own jobs.

On pald's host the kernel tells pald who asks. Elsewhere pal-page answers (PAL_PAGE), and a token of Slurm's tells it.
"""

from __future__ import annotations

import os
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from pal_slurm.errors import BadInput, SlurmUnavailable

SOCKET, PAGE, TOKEN = "PAL_SOCKET", "PAL_PAGE", "SLURM_JWT"
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


def is_told() -> bool:
    """Whether the environment says whom to ask."""
    return bool(os.environ.get(SOCKET) or os.environ.get(PAGE))


def ask(question: Mapping[str, str | int]) -> PaldSaid:
    page = os.environ.get(PAGE, "")
    told = _from_page(page, question) if page else _from_pald(socket_path(), question)
    try:
        heard = msgspec.json.decode(told, type=PaldSaid)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise SlurmUnavailable(f"the answer of {page or socket_path()} is cut off, or of something else") from error
    if heard.error:
        raise BadInput(heard.error)
    return heard


def _from_pald(path: Path, question: Mapping[str, str | int]) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX) as channel:
            # The kernel puts who waits like this into a line; with Python's timeout he is refused while others wait
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(PATIENCE_S), 0))
            channel.connect(str(path))
            channel.settimeout(PATIENCE_S)
            channel.sendall(msgspec.json.encode(question) + b"\n")
            told = bytearray()
            while len(told) <= MOST_BYTES and (part := channel.recv(65_536)):
                told += part
    except OSError as error:
        why = (
            "gives no answer in time"
            if isinstance(error, TimeoutError | BlockingIOError)
            else error.strerror or str(error)
        )
        raise SlurmUnavailable(
            f"pald can't be asked at {path}: {why}. Does it run on another host? Then ask there, or through its page, "
            f"whose address your admins know: export {PAGE}=https://..."
        ) from error
    return bytes(told)


class _NoWayRound(urllib.request.HTTPRedirectHandler):
    """A token goes to no other address."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _from_page(page: str, question: Mapping[str, str | int]) -> bytes:
    if not page.startswith(("http://", "https://")):
        raise BadInput(f"{PAGE}: {page} is no address of a page, as https://gpus.example")
    if not (token := os.environ.get(TOKEN, "")):
        raise BadInput(f"{page} wants to know who asks: export $(scontrol token)")
    words = "/".join(quote(str(question[key]), safe="") for key in ("ask", "job") if key in question)
    more = {"most": question["most"]} if "most" in question else {}
    more |= {"zone": "utc"} if question.get("utc") else {}
    asked = urllib.request.Request(
        f"{page.rstrip('/')}/ask/{words}?{urlencode(more)}", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.build_opener(_NoWayRound).open(asked, timeout=PATIENCE_S) as answer:
            told: bytes = answer.read(MOST_BYTES)
            return told
    except urllib.error.HTTPError as error:
        with error:
            why = {400: "it takes no such token or question", 403: "it does not know you"}.get(
                error.code, str(error.reason)
            )
            raise SlurmUnavailable(f"{page} gives no answer ({error.code}): {why}") from error
    except (OSError, ValueError) as error:
        raise SlurmUnavailable(f"{page} can't be asked: {getattr(error, 'reason', None) or error}") from error
