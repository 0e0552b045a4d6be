"""Applications and what users say of them. In: the words of a comment. Out: app names, wishes, profiles.

NAME is one pattern for C, lua and Python; `spank/tests/vectors.txt` holds the cases that all three must agree on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pal_slurm.model.consent import NO_CONSENT, Consent, Given, said_in

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
MAX_COMMENT = 8192  # a longer comment is nobody's hint; Slurm itself takes up to 60 kB


@dataclass(frozen=True, slots=True)
class Hint:
    """What a job's comment tells us. `dropped`: there was something, and it can't be trusted."""

    app: str | None = None
    off: bool = False
    dropped: bool = False
    consent: Consent = NO_CONSENT  # to be moved while it runs: what the comment alone says


NO_HINT = Hint()
UNREADABLE = Hint(dropped=True, consent=Consent(Given.UNREAD))


def read_hint(comment: str | None) -> Hint:
    """Find `app:NAME` and the `pal:` words of a comment; hostile text costs only the hint (P9)."""
    if not comment:
        return NO_HINT
    if len(comment) > MAX_COMMENT or not comment.isprintable():
        return UNREADABLE
    words = comment.split(" ")
    named = next((word for word in words if word.startswith("app:")), None)
    fine = named is None or APP_NAME.fullmatch(named, 4) is not None
    consent = said_in(words) if "pal:" in comment.lower() else NO_CONSENT
    return Hint(named[4:] if named and fine else None, "pal:off" in words, not fine, consent)


@dataclass(frozen=True, slots=True)
class App:
    """What is known of an application: its class, seconds per step per GPU model, and what distance costs it."""

    name: str
    cls: str
    base: Mapping[str, float] = field(default_factory=dict)  # GPU model -> seconds per step on its median GPU
    comm: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)  # factor per tier: gpu, node, rack, cluster


@dataclass(frozen=True, slots=True)
class Apps:
    """All known applications, and what an unknown one is taken for."""

    known: Mapping[str, App] = field(default_factory=dict)
    default: App = App("?", "A", comm=(1.0, 1.0, 1.0, 1.0))

    def get(self, name: str | None) -> App:
        return self.default if name is None else self.known.get(name, self.default)
