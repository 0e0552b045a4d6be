"""What every section of pal.yaml is. In: nothing. Out: `Section`, and `why`, which describes a key."""

from __future__ import annotations

from typing import Any

import msgspec


def why(text: str, unit: str = "", **limits: Any) -> msgspec.Meta:
    """What a key is for, its unit, and the limits that msgspec enforces (ge, le, gt, min_length, pattern ...)."""
    return msgspec.Meta(description=text, extra={"unit": unit}, **limits)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: strict and immutable."""
