"""Whether reported step times can be. In: a job's reports, what the kernel says of the sender. Out: why one can't.

A job claims its own step times, so they have to fit into the time that it had: no process reports steps of before its
job step began, of the future, or two at a time. How long a step took within that time nobody but the job knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pal_slurm.probe.document import StepTimes

SLACK_S = 15.0  # a clock that is set meanwhile
MOST_SENDERS = 10_000  # of one job; more are a flood
_ROUNDED = 1.01


def impossible(steps: StepTimes) -> str:
    """What contradicts itself; empty: nothing."""
    took = steps.ended_at - steps.begun_at
    if not (steps.count > 0 and steps.seconds > 0 and 0 < steps.fastest <= steps.slowest):
        return "steps of no time"
    if steps.seconds > took * _ROUNDED + 1.0:
        return f"it claims {steps.seconds:.0f} s of steps within {took:.0f} s"
    if not steps.count * steps.fastest / _ROUNDED <= steps.seconds <= steps.count * steps.slowest * _ROUNDED:
        return "its steps together are not what each of them took"
    return ""


@dataclass(slots=True)
class Claims:
    """What one job has claimed on this node."""

    since: float  # when it was first seen
    left_out: int = 0  # since they were last told
    first: str = ""  # why the first of these was
    _until: dict[tuple[int, int], float] = field(default_factory=dict)  # by rank and process

    def believes(self, steps: StepTimes, pid: int, began: float | None, now: float) -> bool:
        """`began`: when the sender's job step did, if the kernel tells."""
        fault = impossible(steps) or self._outside(steps, pid, self.since if began is None else began, now)
        if fault:
            self.left_out += 1
            self.first = self.first or fault
            return False
        if len(self._until) >= MOST_SENDERS:
            self._until.pop(next(iter(self._until)))
        self._until[steps.rank, pid] = steps.ended_at
        return True

    def told(self) -> str | None:
        """A sentence about what was left out since the last one; None: nothing was."""
        count, why = self.left_out, self.first
        self.left_out, self.first = 0, ""
        return f"{count} step reports of the job left out: {why}" if count else None

    def _outside(self, steps: StepTimes, pid: int, began: float, now: float) -> str:
        if steps.begun_at < began - SLACK_S:
            return f"it begins {began - steps.begun_at:.0f} s before the job did here"
        if steps.ended_at > now + SLACK_S:
            return "it lies in the future"
        if steps.begun_at < self._until.get((steps.rank, pid), 0.0) - 1.0:
            return "it overlaps with the one before"
        return ""
