"""Leases that ran out before they were renewed. In: the queue, the ledger. Out: the jobs that may be leased again.

Such a job is Slurm's to start, and bears the begin time that we (or lua, in its mark) wrote, or one of its user's that
has come since: nobody has let it go. One that was released, surrendered or undone (`palctl undo`, also without the
ledger) began at that moment instead; where its user's own `--begin` was still to come, it is taken up again after that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pal_slurm.daemon.begins import Begins, ids
from pal_slurm.model import Job, Snapshot
from pal_slurm.policy.turn import Turn, turn_of
from pal_slurm.store import Ledger

MOST_TIMES = 3  # then it stays Slurm's: a pald that is always late must not keep a job from starting
ASKED_AT_ONCE = 200  # jobs that the ledger is asked for in one cycle


@dataclass
class Lapsed:
    begins: Begins
    _often: dict[tuple[int, int, int | None], int] = field(default_factory=dict)  # a new begin time is asked for anew

    def look(self, snapshot: Snapshot, ledger: Ledger) -> frozenset[int]:
        """The ids of those that are known so far; of a long queue the end comes first, as in `_lease_again`."""
        found = [job for job in reversed(snapshot.pending) if ran_out(job, snapshot.taken)]
        found = [job for job in found if not self.begins.let_go(job)]
        known = {(*job.key, job.eligible) for job in found}
        self._often = {key: often for key, often in self._often.items() if key in known}
        unknown = [job for job in found if (*job.key, job.eligible) not in self._often][:ASKED_AT_ONCE]
        if unknown:
            times = ledger.leased_again((number, job.submit) for job in unknown for number in ids(job))
            for job in unknown:
                often = max(times.get((number, job.submit), 0) for number in ids(job))
                self._often[(*job.key, job.eligible)] = often
        return frozenset(job.id for job in found if self._often.get((*job.key, job.eligible), MOST_TIMES) < MOST_TIMES)


def ran_out(job: Job, now: float) -> bool:
    """It looks as if: our mark, no pin, eligible, kept by no limit. A requeued job has its begin time from Slurm."""
    if job.lease is None or job.restarts or not job.gpu_job or job.pin:
        return False
    # A mark that asks for a later begin: its user has asked for an earlier one since.
    return turn_of(job, now)[0] is Turn.THEIRS and job.own_begin(now) is None
