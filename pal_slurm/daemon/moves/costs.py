"""What a move costs. In: moves that were measured, what users told, pal.yaml. Out: seconds per job, a margin for doubt.

Measured once a few moves of an application on a model are known, the default before that. A told cost counts where it
is more than that: who claims that a restart is free is not moved about for it (P12), who claims much is moved less.
What a user's own jobs showed counts for his; of others' what most users saw, for it is each one's own word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median, quantiles

from pal_slurm.config.moves import MovesSection
from pal_slurm.daemon.moves.budget import losers, lost
from pal_slurm.model import Cluster, Ending, Job, Move

ENOUGH = 3  # moves, until they are believed; and users, where it is about another one
MOST_DOUBT = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    median_s: float
    p90_s: float
    n: int


@dataclass
class Costs:
    keys: MovesSection
    doubt: float = 1.0  # how much more moves have promised than they brought; 1: no less
    _known: dict[tuple[str, str], dict[str, Cost]] = field(default_factory=dict)  # by application and model; by user

    @classmethod
    def learned(cls, keys: MovesSection, moves: Iterable[Move]) -> Costs:
        moves = list(moves)
        doubted = losers(moves)  # they are not moved any more
        seconds: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        of_user: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # promised, brought
        for move in moves:
            if move.ending in (Ending.MOVED, Ending.ELSEWHERE) and move.real_cost_s is not None:
                seconds[move.app or "", move.model][move.user].append(lost(move))
            if move.real_gain_s is not None and move.user not in doubted:
                of_user[move.user][0] += move.gain_s * move.gpus
                of_user[move.user][1] += move.real_gain_s * move.gpus
        known = {
            key: {user: _cost(found) for user, found in of_users.items() if len(found) >= ENOUGH}
            for key, of_users in seconds.items()
        }
        # Whose moves fell shortest is left out: steps are each user's own word (P12).
        counted = sorted(of_user.values(), key=lambda pair: pair[0] - pair[1])
        counted = counted[:-1] if len(counted) > 1 else counted
        promised, brought = (sum(part) for part in zip(*counted, strict=True)) if counted else (0.0, 0.0)
        doubt = 1.0 if promised <= 0 else min(MOST_DOUBT, max(1.0, promised / max(brought, promised / MOST_DOUBT)))
        return cls(keys, doubt, known)

    def of(self, job: Job, cluster: Cluster) -> float:
        row = cluster.node_index.get(job.nodes[0])
        model = "" if row is None or not job.gpus[0] else cluster.models[int(cluster.gpu_model[row, job.gpus[0][0]])]
        told = job.consent.cost_s or 0
        of_users = self._known.get((job.hint.app or "", model), {})
        if job.user in of_users:
            return max(float(told), of_users[job.user].p90_s)
        if len(of_users) >= ENOUGH:
            return max(float(told), median(cost.p90_s for cost in of_users.values()))
        large = sum(map(len, job.gpus)) >= self.keys.large_gpus
        return max(self.keys.large_cost_s if large else self.keys.cost_s, float(told))


def _cost(seconds: list[float]) -> Cost:
    return Cost(median(seconds), quantiles(seconds, n=10, method="inclusive")[-1], len(seconds))
