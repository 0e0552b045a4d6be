"""Names that the document may hold. In: any text. Out: whether it is one; or the nearest harmless text."""

from __future__ import annotations

import re

UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,95}")
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
APP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")  # the one pattern of application names, as in C and lua
CLASS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,31}")
JOB = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10})?")
LONGEST_SENTENCE = 500
MOST_DIGITS = 20  # of 64 bits


def printable(text: str) -> bool:
    """No control or format characters (escapes, right-to-left marks), no lone surrogates."""
    return text.isprintable()


def plain(text: str, most: int = LONGEST_SENTENCE) -> str:
    """The text as one harmless line."""
    words = " ".join(text.split())
    clean = "".join(c if c.isprintable() else "?" for c in words)
    return clean if len(clean) <= most else clean[: most - 3] + "..."


def app_name(text: str) -> str:
    """The text made an application's name: `fake:A` -> `fake-A`."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", text).lstrip("._+-")[:64]
    return name or "unnamed"


def digits(text: str) -> bool:
    """A whole number as programs write it: not in the digits of other scripts, nor longer than any that counts."""
    return len(text) <= MOST_DIGITS and text.isascii() and text.isdigit()
