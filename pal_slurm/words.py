"""Text of others (P9). In: any text. Out: the same, safe for a terminal and for a log; whether it is a number."""

from __future__ import annotations

MOST_DIGITS = 20  # of 64 bits


def plain(text: str) -> str:
    """Each character that can't be seen is a blank: escapes, line ends, what turns the direction of writing."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def printable(text: bytes | str, most: int = 300) -> str:
    """One line, not too long, whatever Slurm or a user put into it."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return plain(text).strip()[:most]


def digits(text: str | bytes) -> bool:
    """A whole number as programs write it: `str.isdigit` also takes digits of other scripts, and superscripts.

    None of Slurm's has more digits; thousands of them Python refuses to read.
    """
    return len(text) <= MOST_DIGITS and text.isascii() and text.isdigit()
