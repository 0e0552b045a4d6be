"""Proves a start safe before it is written. In: Decisions, Snapshot, Rules. Out: a Permit or a Refusal for each.

Shares no code with the planner: what the planner gets wrong must not be got wrong here in the same way.
"""

from pal_slurm.guard.check import check
from pal_slurm.guard.exclusion import check_exclusion
from pal_slurm.guard.verdict import Cause, MoveRules, Permit, Refusal, Rules, Verdict

__all__ = ["Cause", "MoveRules", "Permit", "Refusal", "Rules", "Verdict", "check", "check_exclusion"]
