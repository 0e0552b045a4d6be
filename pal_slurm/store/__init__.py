"""What is remembered: GPUs, scores, applications, the ledger of edits, leadership, outcomes. Rows in, model out."""

from pal_slurm.store.apps import AppRepo, StoredApp
from pal_slurm.store.decisions import DecisionRepo, Weighed, Why
from pal_slurm.store.engine import Store, open_store
from pal_slurm.store.gpus import GpuRepo, Sighting, Stay
from pal_slurm.store.leadership import Leadership, Term
from pal_slurm.store.ledger import Ledger
from pal_slurm.store.memory import MemoryRepo
from pal_slurm.store.moves import MoveRepo
from pal_slurm.store.outcomes import JobOutcome, OutcomeRepo
from pal_slurm.store.pairs import PairRepo, UserPair
from pal_slurm.store.scores import Added, Delivery, Measurement, PlacedScore, Score, ScoreRepo
from pal_slurm.store.state import Pause, Said, Switches
from pal_slurm.store.votes import UserApp, VoteRepo

__all__ = [
    "Added", "AppRepo", "DecisionRepo", "Delivery", "GpuRepo", "JobOutcome", "Leadership", "Ledger", "Measurement",
    "MemoryRepo", "MoveRepo", "OutcomeRepo", "PairRepo", "Pause", "PlacedScore", "Said", "Score", "ScoreRepo",
    "Sighting", "Stay", "Store", "StoredApp", "Switches", "Term", "UserApp", "UserPair", "VoteRepo", "Weighed", "Why",
    "open_store",
]  # fmt: skip
