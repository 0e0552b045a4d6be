"""Which waiting job starts now, and on which GPUs. In: Snapshot, Knowledge, Composition. Out: a Plan of Decisions.

Pure: no clock, no I/O, no global random numbers. The daemon and the simulator drive the same objects.
"""

from pal_slurm.policy.composition import NAMED, Composition, compose
from pal_slurm.policy.easy import Reserved
from pal_slurm.policy.floor import Floor
from pal_slurm.policy.plan import Circumstances, Plan
from pal_slurm.policy.planner import Planner, plan
from pal_slurm.policy.seams import (
    Order,
    Patience,
    Placer,
    Progress,
    orders,
    patiences,
    placements,
)

__all__ = [
    "NAMED", "Circumstances", "Composition", "Floor", "Order", "Patience", "Placer", "Plan", "Planner", "Progress",
    "Reserved", "compose", "orders", "patiences", "placements", "plan",
]  # fmt: skip
