"""What a check says. In: nothing. Out: `Advice`: ok, mend with the very line to add and where, or a note."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    OK = "ok"
    MEND = "mend"
    NOTE = "note"  # a choice of the site's, or what can't be seen from here


@dataclass(frozen=True, slots=True)
class Advice:
    health: Health
    said: str
    add: str = ""  # the very line, or the command
    where: str = ""  # the file it belongs in, with its line where one is to be changed
    then: str = ""  # what makes it count
    # Puts it right; only where that writes nothing but a file of pal-slurm's. Its answer is what was done.
    fix: Callable[[], str] | None = None
    to_place: bool = False  # wanted only where pald leases or edits jobs, and so not in shadow mode


def ok(said: str) -> Advice:
    return Advice(Health.OK, said)


def note(said: str, add: str = "", where: str = "") -> Advice:
    return Advice(Health.NOTE, said, add, where)


def mend(said: str, add: str = "", where: str = "", then: str = "", fix: Callable[[], str] | None = None) -> Advice:
    return Advice(Health.MEND, said, add, where, then, fix)


def to_place(said: str, add: str = "", where: str = "", then: str = "", fix: Callable[[], str] | None = None) -> Advice:
    """To be mended before jobs are placed; until then, in shadow mode, a note."""
    return Advice(Health.MEND, said, add, where, then, fix, to_place=True)
