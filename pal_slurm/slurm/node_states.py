"""May a node start jobs? In: its state in Slurm's words (`IDLE+DRAIN`, `mixed*`). Out: yes or no, whether at once."""

from __future__ import annotations

from functools import lru_cache

# fmt: off
UNFIT = frozenset({
    "DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "INVALID", "INVALID_REG",
    "MAINT", "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND", "POWERING_DOWN", "POWER_DOWN",
    "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "BLOCKED",
})
# A job may be put there, and Slurm powers it up for that.
ASLEEP = frozenset({"POWERED_DOWN", "POWERING_UP", "POWER_UP"})
# fmt: on
_SUFFIX = "*~#!%$@^-"


def may_start(state: str) -> bool:
    words = _words(state)
    if _reboots_later(words):
        words -= {"REBOOT_REQUESTED"}
    if _is_asleep(state):
        words -= {"NOT_RESPONDING", "NO_RESPOND"}  # nobody expects an answer while it boots
    return "*" not in state and UNFIT.isdisjoint(words)


def is_late(state: str) -> bool:
    """Better others: a job there waits until it is powered up, or keeps it from its reboot."""
    return _is_asleep(state) or _reboots_later(_words(state))


def _is_asleep(state: str) -> bool:
    return not ASLEEP.isdisjoint(_words(state)) or not {"~", "#"}.isdisjoint(state)


def _reboots_later(words: frozenset[str]) -> bool:
    """Once its jobs have ended. Until then it takes others too, unless it was to be at once: then it drains."""
    return "REBOOT_REQUESTED" in words and "IDLE" not in words


@lru_cache(maxsize=256)
def _words(state: str) -> frozenset[str]:
    return frozenset(word.strip(_SUFFIX) for word in state.upper().split("+"))
