"""May we edit others' jobs at all? In: the results of edits. Out: what to do, when slurmctld refuses each of them.

Without the right to it pald would hold jobs that it can never place: it writes nothing for a while, and takes back its
sign of life, so that lua gives no leases.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass

from pal_slurm.model import EditKind, EditResult, Outcome

NOT_ALLOWED = "Invalid user id"  # what 22.05, 24.11 and 26.05 say to an update of another user's job
NO_RESERVATIONS = (NOT_ALLOWED, "Access/permission denied")  # and to a reservation
AGAIN_S = 600.0


@dataclass
class Rights:
    _until: float = float("-inf")  # on the monotonic clock
    _no_fence_until: float = float("-inf")

    def learn_from(self, results: Sequence[EditResult], monotonic: float) -> None:
        """After a batch of edits: all were refused for who we are."""
        if results and all(r.outcome is Outcome.REFUSED and r.said.startswith(NOT_ALLOWED) for r in results):
            self._until = monotonic + AGAIN_S
        fences = (r for r in results if r.edit.kind is EditKind.FENCE and r.outcome is Outcome.REFUSED)
        if any(word in r.said for r in fences for word in NO_RESERVATIONS):
            self._no_fence_until = monotonic + AGAIN_S

    def may_fence(self, monotonic: float) -> bool:
        """Whether reservations may be made, as far as we know: who may not asks nobody to go for whom it takes one."""
        return monotonic >= self._no_fence_until

    def denied(self, monotonic: float) -> str:
        """Why nothing is tried now; empty: all is well, as far as we know."""
        return _remedy() if monotonic < self._until else ""


def _remedy() -> str:
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    return (
        f"slurmctld lets user {name} edit nobody else's jobs, so none is leased; "
        f"`sacctmgr -i add user {name} account=root adminlevel=operator` (one that it knows already: "
        f"`sacctmgr -i modify user {name} set adminlevel=operator`), or run pald as SlurmUser; then restart pald"
    )
