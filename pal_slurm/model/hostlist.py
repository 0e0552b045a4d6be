"""Names in a node list, the one expander of all rooms. In: `n[1-3,07],m5`. Out: names, or None.

None, unlike an empty set, says "this can't be understood": whoever must respect the list then keeps its hands off.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST_NAMES = 200_000  # a list that folds out to more is a mistake or an attack
_ITEM = re.compile(r"(?:[A-Za-z0-9._-]|\[[0-9,-]+\])+")
_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_COMMA = re.compile(r",(?![^\[]*\])")


@lru_cache(maxsize=1024)
def unfold_hosts(text: str) -> tuple[str, ...] | None:
    """Every name in a Slurm node list, in order and once; None when the text is not one."""
    names: dict[str, None] = {}
    for item in _COMMA.split(text) if text else ():
        if not _ITEM.fullmatch(item):
            return None
        product = [""]
        for inside, plain in _PART.findall(item):
            choices = [plain] if plain else _numbers(inside)
            if choices is None or len(product) * len(choices) > MOST_NAMES:
                return None
            product = [head + tail for head in product for tail in choices]
        names.update(dict.fromkeys(product))
        if len(names) > MOST_NAMES:
            return None
    return tuple(names)


def expand_hosts(text: str) -> frozenset[str] | None:
    """The same as a set."""
    names = unfold_hosts(text)
    return None if names is None else frozenset(names)


def _numbers(inside: str) -> list[str] | None:
    """`1-3,07` as 1, 2, 3, 07: the width of the lower end is kept."""
    out: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return None
        low, high = match.group(1), match.group(2) or match.group(1)
        if int(high) < int(low) or int(high) - int(low) > MOST_NAMES:
            return None
        out += [str(i).zfill(len(low)) for i in range(int(low), int(high) + 1)]
    return out
