"""Who looks. In: a request's headers and where it came from. Out: a Viewer, or a refusal.

pal-page asks nobody for a password: the proxy in front does, and says in one header who it was. That header counts
only from the one address that the settings name, or through the socket that only the proxy's group may open. A token
of Slurm's says the same from anywhere, where the page has Slurm's key.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from pal_slurm.config.address import UNIX
from pal_slurm.config.page import PageSection
from pal_slurm.page.token import user_of

_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]{2,64}\]|[A-Za-z0-9_.-]{1,255})(?::[0-9]{1,5})?")


class Unclear(Exception):
    """A request that can be meant in two ways: it is answered in none."""


@dataclass(frozen=True, slots=True)
class Viewer:
    name: str = ""  # empty: nobody is logged in
    everything: bool = False

    def sees(self, user: str) -> bool:
        """Whether a job of that user is shown to him in full."""
        return self.everything or (bool(self.name) and self.name == user)


def viewer_of(
    headers: Sequence[tuple[bytes, bytes]], peer: str | None, page: PageSection, key: bytes = b"",
    private: Collection[str] = (),
) -> Viewer:  # fmt: skip
    """`peer`: the address that it came from; None: it has none, through a socket or because it is gone already.

    `private`: PrivateData of slurm.conf; what that keeps from users, page.privacy does not give them.
    """
    said = _said(headers, page.user_header.lower().encode()) if page.user_header else []
    name = ""
    if said:
        through_socket = page.listen.startswith(UNIX)
        if not (peer is None if through_socket else bool(peer) and peer == page.proxy):
            raise Unclear(f"{page.user_header} is not for you to say")
        if len(said) > 1 or not _NAME.fullmatch(said[0]):
            raise Unclear(f"{page.user_header} must come once and hold one user's name")
        name = said[0].decode("ascii")
    elif key:
        name = _named_by_token(headers, key)
    everybodys = page.privacy == "open" and not {"jobs", "nodes", "users"}.intersection(private)
    return Viewer(name, everybodys or (bool(name) and name in page.admins))


def is_ours(host: bytes, page: PageSection) -> bool:
    """Whether a Host is a name of this page. By a name of its own that leads here (DNS rebinding) a web page elsewhere
    would read this one in its reader's browser; no name is needed for an IP address, and that can't lead elsewhere."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1].decode("ascii").lower().rstrip(".")
    with contextlib.suppress(ValueError):
        ip_address(name.strip("[]"))
        return True
    own = "" if page.listen.startswith(UNIX) else page.listen.rpartition(":")[0]
    return name in {"localhost", own.lower(), *(host.lower().rstrip(".") for host in page.hosts)}


def _named_by_token(headers: Iterable[tuple[bytes, bytes]], key: bytes) -> str:
    """Empty: there is none. Other kinds of Authorization are for the proxy."""
    told = [value for name, value in headers if name.lower() == b"authorization"]
    tokens = [value[7:].strip() for value in told if value[:7].lower() == b"bearer "]
    if not tokens:
        return ""
    name = user_of(tokens[0], key, time.time()) if len(told) == 1 else ""
    if not _NAME.fullmatch(name.encode()):
        raise Unclear("this token is not of this Slurm, or its time is over: take another with `scontrol token`")
    return name


def _said(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    """`X_Remote_User` is refused as well: some proxies drop only the name with hyphens."""
    found = []
    for name, value in headers:
        low = name.lower()
        if low == wanted:
            found.append(value.strip(b" \t"))
        elif low.replace(b"_", b"-") == wanted:
            raise Unclear(f"a header that looks like {wanted.decode('ascii')}")
    return found
