"""Why a job waits. In: Slurm's word for it. Out: Waits, the only form in which any other room compares it."""

from __future__ import annotations

import re
from functools import lru_cache

from pal_slurm.model import Waits

# Beginnings of Slurm's words; the longest that fits counts.
WORDS = {
    "None": Waits.UNSEEN,
    "BeginTime": Waits.BEGIN,
    "Priority": Waits.TURN,
    "Resources": Waits.ROOM,
    "ReqNodeNotAvail": Waits.NODES,
    "NodeDown": Waits.NODES,
    "BadConstraints": Waits.NEVER,
    "PartitionConfig": Waits.NEVER,
    "PartitionNodeLimit": Waits.NEVER,
    "PartitionTimeLimit": Waits.NEVER,
    "DeadLine": Waits.NEVER,
    "Assoc": Waits.LIMIT,
    "QOS": Waits.LIMIT,
    "Licenses": Waits.LIMIT,
    "Reservation": Waits.LIMIT,
    "AccountNotAllowed": Waits.LIMIT,
    "InvalidAccount": Waits.LIMIT,
    "MaxMem": Waits.LIMIT,
    "JobHeld": Waits.HELD,
    "JobHold": Waits.HELD,
    "Account": Waits.BLOCKED,
    "InvalidQOS": Waits.BLOCKED,
    "Partition": Waits.BLOCKED,
    "Dependency": Waits.BLOCKED,
    "JobArrayTaskLimit": Waits.BLOCKED,
    "Cleaning": Waits.BLOCKED,
}
# What jobs have in common, and not what one of them asks for (QOSMaxGRESPerJob, QOSMaxWallDurationPerJobLimit ...).
# Of most limits per account, and of those on minutes per user, Slurm does not say that they are a QOS's.
_SHARED = re.compile(r"(?:Assoc|QOS)(?:Grp|MaxJobs)|(?:Assoc|QOS)?Max\w*Per(?:User|Account)")
_OWN = re.compile(r"AssocMax|\w*PerUser")


@lru_cache(maxsize=256)
def why(reason: str) -> Waits:
    if not reason:
        return Waits.UNSEEN
    if _SHARED.match(reason):
        return Waits.OWN_LIMIT if _OWN.match(reason) else Waits.THEIR_LIMIT
    return WORDS[max(fits, key=len)] if (fits := [word for word in WORDS if reason.startswith(word)]) else Waits.OTHER
