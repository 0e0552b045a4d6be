"""What a cycle reads and writes beside Slurm. In: repositories. Out: the same, by name."""

from __future__ import annotations

from dataclasses import dataclass

from pal_slurm.daemon.beside.entitling import Entitling
from pal_slurm.daemon.beside.forgetting import Forgetter
from pal_slurm.daemon.beside.gpu_limits import GpuLimits
from pal_slurm.daemon.beside.learning import Learner
from pal_slurm.daemon.observe import Observer
from pal_slurm.daemon.remembering import Remembering
from pal_slurm.daemon.round import Round
from pal_slurm.learning.knowledge import KnowledgeKeeper
from pal_slurm.policy import Composition
from pal_slurm.policy.entitlement.precedence import DueNow
from pal_slurm.store import DecisionRepo, Ledger, Switches


@dataclass
class Books:
    """The repositories that a cycle reads and writes, and what it has others do with them."""

    ledger: Ledger
    decisions: DecisionRepo
    switches: Switches
    observer: Observer
    forgetter: Forgetter
    knowledge: KnowledgeKeeper
    learner: Learner
    memory: Remembering
    entitling: Entitling
    gpu_limits: GpuLimits

    def due(self, composition: Composition, round: Round, monotonic: float) -> DueNow | None:
        """What each job is owed, as far as it is known."""
        debts = self.memory.of(round.fence, round.now).debts
        return self.entitling.due(composition.entitlement, round, self.observer.run_times, monotonic, debts)
