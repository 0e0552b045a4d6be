"""Numbers on a command line. In: words. Out: a number within its limits; or a sentence, with the option.

Python's own float takes `nan`, which is within every range, `inf`, `1_0` and digits of other scripts.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[0-9]{1,9}")


def number(least: float = 0.0, most: float = 1e9) -> Callable[[str], float]:
    def parse(text: str) -> float:
        if not _NUMBER.fullmatch(text) or not least <= float(text) <= most:
            raise ArgumentTypeError(f"{text!r} is no number from {least:g} to {most:g}")
        return float(text)

    return parse


def whole(least: int = 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _WHOLE.fullmatch(text) or int(text) < least:
            raise ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return parse
