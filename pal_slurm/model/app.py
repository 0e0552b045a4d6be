"""Applications and what users say of them. In: the words of a comment. Out: app names, wishes, profiles.

NAME is one pattern for C, lua and Python; `spank/tests/vectors.txt` holds the cases that all three must agree on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pal_slurm.model.consent import NO_CONSENT, Consent, Given, said_in

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
BY_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_WORDS = frozenset({"pal:off", "pal:same", "pal:dearer", "pal:share", "pal:move"})
MAX_COMMENT = 8192  # a longer comment is nobody's hint; Slurm itself takes up to 60 kB


@dataclass(frozen=True, slots=True)
class Hint:
    """What a job's comment tells us. `dropped`: there was something, and it can't be trusted."""

    app: str | None = None
    off: bool = False
    dropped: bool = False
    consent: Consent = NO_CONSENT  # to be moved while it runs: what the comment alone says
    same: bool = False  # pal:same: it stays on the GPU model that it got first
    dearer: bool = False  # pal:dearer: it may have pools that bill more than what it asked for
    share: bool = False  # pal:share: it may have its GPUs together with another job of its user or account
    guessed: bool = False  # a pattern of the site's named its application, not its user
    by: str = ""  # pal:by=TIME: when its user wants it done, by the clock of the cluster
    unread: str = ""  # the first word that was meant for us and is none of ours: a name with a slash, pal:mvoe


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
    app = named[4:] if named and fine else None
    by = next((word[7:] for word in words if word.startswith("pal:by=") and BY_TIME.fullmatch(word, 7)), "")
    off, same, dearer, share = (f"pal:{word}" in words for word in ("off", "same", "dearer", "share"))
    odd = (word for word in words if word.startswith("pal:") and not _ours(word))
    unread = next(odd, "") if fine else named or ""
    return Hint(app, off, not fine, consent, same, dearer, share, by=by, unread=unread)


def _ours(word: str) -> bool:
    if word.startswith("pal:by="):
        return BY_TIME.fullmatch(word, 7) is not None
    return word in _WORDS or word.startswith(("pal:move=", "pal:stay"))  # said_in tells of a wrong pal:move


class Trust(NamedTuple):
    """How good a base time is."""

    doubt: float  # how far off it may be, as a share
    source: str  # told, app, class, fleet, none


TOLD = Trust(0.0, "told")


@dataclass(frozen=True, slots=True)
class App:
    """What is known of an application: its class, seconds per step per GPU model, and what distance costs it."""

    name: str
    cls: str
    base: Mapping[str, float] = field(default_factory=dict)  # GPU model -> seconds per step on its median GPU
    comm: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)  # factor per tier: gpu, node, rack, cluster
    unlinked: float = 1.0  # factor on one node where its GPUs are not all linked directly; no less than a node's
    shown: str = ""  # the class that this user's jobs have shown, where `cls` claims a more sensitive one

    @property
    def proven(self) -> str:
        """The class that counts against others' jobs."""
        return self.shown or self.cls

    def trust(self, model: str) -> Trust:
        """How good its base on that model is."""
        return TOLD


@dataclass(frozen=True, slots=True)
class RatedApp(App):
    """One whose base times were learned, or some of them."""

    trusts: Mapping[str, Trust] = field(default_factory=dict)

    def trust(self, model: str) -> Trust:
        return self.trusts.get(model, TOLD)


@dataclass(frozen=True, slots=True)
class Apps:
    """All known applications, and what an unknown one is taken for."""

    known: Mapping[str, App] = field(default_factory=dict)
    default: App = App("?", "A", comm=(1.0, 1.0, 1.0, 1.0))
    own: Mapping[tuple[str, str], App] = field(default_factory=dict)  # by user and name: as his own jobs showed it

    def get(self, name: str | None, user: str = "") -> App:
        """As it counts for a job of that user's."""
        if name is None:
            return self.default
        own = self.own.get((user, name)) if self.own else None
        return self.known.get(name, self.default) if own is None else own
