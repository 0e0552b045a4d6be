"""Who looks. In: a request's headers and where it came from. Out: a Viewer, or a refusal.

pal-page asks nobody for a password: the proxy in front does, and says in one header who it was. That header counts
only from the one address that the settings name, or through the socket that only the proxy's group may open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pal_slurm.config.address import UNIX
from pal_slurm.config.page import PageSection

_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Unclear(Exception):
    """A request that can be meant in two ways: it is answered in none."""


@dataclass(frozen=True, slots=True)
class Viewer:
    name: str = ""  # empty: nobody is logged in
    everything: bool = False

    def sees(self, user: str) -> bool:
        """Whether a job of that user is shown to him in full."""
        return self.everything or (bool(self.name) and self.name == user)


def viewer_of(headers: Iterable[tuple[bytes, bytes]], peer: str | None, page: PageSection) -> Viewer:
    """`peer`: the address that it came from; None: it has none, through a socket or because it is gone already."""
    said = _said(headers, page.user_header.lower().encode()) if page.user_header else []
    name = ""
    if said:
        through_socket = page.listen.startswith(UNIX)
        if not (peer is None if through_socket else bool(peer) and peer == page.proxy):
            raise Unclear(f"{page.user_header} is not for you to say")
        if len(said) > 1 or not _NAME.fullmatch(said[0]):
            raise Unclear(f"{page.user_header} must come once and hold one user's name")
        name = said[0].decode("ascii")
    return Viewer(name, page.privacy == "open" or (bool(name) and name in page.admins))


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
