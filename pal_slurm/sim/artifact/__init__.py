"""The published artifact's placement in rounds, bug for bug, for conformance. In: jobs in order. Out: GPU sets.

PAL (SC'24) frees every GPU each round and places the head of the queue anew; its rival `packed-sticky` leaves running
jobs where they are. GPUs are flat numbers, node * width + slot. Semantics: docs/simulator.md.
"""

from pal_slurm.sim.artifact.board import Ask, Board, Gpus
from pal_slurm.sim.artifact.placers import PLACERS, Placer
from pal_slurm.sim.artifact.rounds import ROUND_NAMES, Anew, Packed, Rounds, rounds_named

PACKED_NAME = "artifact/gavel-las-packed"
GAVEL_NAMES = ("artifact/gavel-las", "artifact/gavel-las-agnostic", PACKED_NAME)
ARTIFACT_NAMES = (*ROUND_NAMES, *GAVEL_NAMES)

__all__ = [
    "ARTIFACT_NAMES", "GAVEL_NAMES", "PACKED_NAME", "PLACERS", "ROUND_NAMES", "Anew", "Ask", "Board", "Gpus", "Packed",
    "Placer", "Rounds", "rounds_named",
]  # fmt: skip
