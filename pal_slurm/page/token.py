"""A Slurm token, as `scontrol token` gives it. In: its text, Slurm's key. Out: whose it is, or nobody's.

A JSON web token signed with HMAC SHA-256: Slurm's own default, and the only kind that is taken here.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode
from hashlib import sha256

import msgspec

MOST_BYTES = 4096
LEAST_KEY = 16  # bytes: a shorter one can be guessed


class _Head(msgspec.Struct):
    alg: str


class _Claims(msgspec.Struct):
    exp: float
    sun: str  # Slurm user name


def user_of(token: bytes, key: bytes, now: float) -> str:
    """Empty: it is no token of this Slurm, or its time is over."""
    parts = token.split(b".")
    if len(token) > MOST_BYTES or len(parts) != 3 or len(key) < LEAST_KEY:
        return ""
    try:
        head, claims, signature = map(_bytes, parts)
        signed = hmac.new(key, parts[0] + b"." + parts[1], sha256).digest()
        if not hmac.compare_digest(signed, signature):
            return ""
        if msgspec.json.decode(head, type=_Head).alg != "HS256":
            return ""
        told = msgspec.json.decode(claims, type=_Claims)
    except (ValueError, RecursionError, msgspec.DecodeError):  # binascii.Error is a ValueError
        return ""
    return told.sun if now < told.exp else ""


def _bytes(part: bytes) -> bytes:
    if not part or b"=" in part:
        raise binascii.Error("padding")
    return urlsafe_b64decode(part + b"=" * (-len(part) % 4))
