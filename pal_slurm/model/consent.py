"""Whether a job may be moved while it runs. In: the words of its comment, what else was said of it. Out: Consent.

A word is `pal:move`, `pal:move=SECONDS` (what a restart costs it), `pal:move=SIGNAL@SECONDS` (what to send it first,
and how long it then has to save and to requeue itself; with a `!` behind: it is then
requeued all the same) or `pal:stay`. C and lua read the same ones: `spank/tests/vectors.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

MOST_COST_S = 86_400
MOST_AHEAD_S = 3_600
_VALUE = re.compile(r"([1-9][0-9]{0,4})|(B:)?(?:SIG)?(USR[12])@([1-9][0-9]{0,3})(!)?")


class Given(StrEnum):
    """How it was said that a job may be moved, or why it may not; the values are what `palctl jobs` shows."""

    ASKED = "asked"  # pal:move
    SITE = "site"  # its QOS or its partition is one whose jobs may be moved
    REQUEUE = "requeue"  # --requeue: no consent by itself, only where such jobs of this user were seen to resume
    NOT = ""
    STAY = "stay"  # pal:stay or pal:off
    NO_REQUEUE = "no-requeue"  # it could be, but Slurm would not start it again, or its user forbade that
    TAKEN_BACK = "taken-back"  # pal:move at submission, and no more
    UNREAD = "unread"  # something was said that can't be read


MOVABLE = frozenset({Given.ASKED, Given.SITE, Given.REQUEUE})


@dataclass(frozen=True, slots=True)
class Consent:
    given: Given = Given.NOT
    cost_s: int | None = None  # what a restart costs it, as its user told
    signal: str = ""  # to be sent first; none: nothing but what Slurm itself sends
    to_script: bool = False  # to the batch script alone; else to the steps alone
    ahead_s: int = 0  # how long it has to answer the signal
    unanswered: bool = False  # it has saved by then, and is requeued also where it runs on

    @property
    def asked(self) -> bool:
        return self.given is Given.ASKED


_PLAINLY = {given: Consent(given) for given in Given}
NO_CONSENT, _UNREAD = _PLAINLY[Given.NOT], _PLAINLY[Given.UNREAD]


def read_move(word: str) -> Consent:
    """One `pal:move` word."""
    if word == "pal:move":
        return Consent(Given.ASKED)
    match = _VALUE.fullmatch(word, len("pal:move="))
    if match is None:
        return _UNREAD
    cost, to_script, signal, ahead, unanswered = match.groups()
    if cost is not None:
        return Consent(Given.ASKED, cost_s=int(cost)) if int(cost) <= MOST_COST_S else _UNREAD
    if int(ahead) > MOST_AHEAD_S:
        return _UNREAD
    first = Consent(Given.ASKED, signal=signal, to_script=to_script is not None, ahead_s=int(ahead))
    return replace(first, unanswered=unanswered is not None)


def said_in(words: Iterable[str]) -> Consent:
    """What the words of a comment say together: `stay` wins, what contradicts itself counts as unread."""
    said = NO_CONSENT
    for word in words:
        if word == "pal:off" or word[:8].lower() == "pal:stay":  # however it is written: it costs nothing to stay
            return _PLAINLY[Given.STAY]
        if (word == "pal:move" or word.startswith("pal:move=")) and said is not _UNREAD:
            said = _both(said, read_move(word))
    return said


def _both(one: Consent, other: Consent) -> Consent:
    if one is NO_CONSENT or not other.asked:
        return other
    if one.cost_s and other.cost_s not in (None, one.cost_s):
        return _UNREAD
    if not (one.signal and other.signal):
        loud = one if one.signal else other
        return replace(loud, cost_s=one.cost_s or other.cost_s)
    cost_s = one.cost_s or other.cost_s
    return replace(one, cost_s=cost_s) if replace(other, cost_s=one.cost_s) == one else _UNREAD


def consent_of(said: Consent, *, restarts: bool, asked_first: bool, site: bool, requeue: bool) -> Consent:
    """What counts, of all that was said. `restarts`: Slurm would start it again, and its user did not forbid it."""
    if said.given is Given.NOT:
        if asked_first:
            return _PLAINLY[Given.TAKEN_BACK]
        said = _PLAINLY[Given.SITE if site else Given.REQUEUE if requeue else Given.NOT]
    return said if restarts or said.given not in MOVABLE else _PLAINLY[Given.NO_REQUEUE]
