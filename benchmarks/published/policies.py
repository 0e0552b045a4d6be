"""The policies of `python -m benchmarks.published`. In: a name or a YAML file. Out: schedulers.

All of `palctl simulate`, and:

    artifact/pal, artifact/pm-first, artifact/packed-sticky, artifact/packed-nonsticky      PAL's published code
    artifact/gavel-las, artifact/gavel-las-agnostic, artifact/gavel-las-packed              Gavel's
    artifact/dally                                                                          Dally, with leases that end
    gavel-owed/OBJECTIVE    jobs are stopped for what others are owed by one of Gavel's objectives
    reassign                running jobs move to any GPUs, at a price

A YAML file takes what `palctl simulate` takes, and of these:

    order: las            # fifo, slurm, las, srtf, nw-sens
    fill: holes           # none, easy, holes: of PAL's and of reassign
    weights: {ml: 2}      # of gavel-owed/OBJECTIVE: of accounts, or of users without one; 1
    prices: {v100: 3.1}   # of gavel-owed/cost and gavel-owed/cost-slo: of a GPU of a model; 1
    round_s: 1440         # of artifact/gavel-*: 360
    shares_last_s: 0      # of artifact/gavel-*: 1920; 0: shares are made anew whenever a job came or ended
    leases: [3600, 24, 6, 12]   # of artifact/dally: seconds of a lease; of history, and at least for a rack and beyond
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.published.admission import admission
from benchmarks.published.dally import Leases
from benchmarks.published.gavel import AS_PUBLISHED, GavelLoop, GavelPace
from benchmarks.published.gavel_owed import OwedAssignment, Terms
from benchmarks.published.gavel_pairs import GavelPairs
from benchmarks.published.orders import CHANGING, order_named
from benchmarks.published.pal import ROUND_NAMES, PalRounds
from benchmarks.published.preemptive import Preemptive
from benchmarks.published.reassign import ReassignGpus
from pal_slurm.errors import ConfigError
from pal_slurm.model import NOBODY_SHARES, ScoreTable, Sharing
from pal_slurm.policy.entitlement.objectives import AGNOSTIC, OBJECTIVES, objective_named
from pal_slurm.policy.patience.dally import Dally
from pal_slurm.sim.engine import Scheduler
from pal_slurm.sim.policies import Policies, PolicySpec, Setting

TRACKED = 160  # PAL's published simulation ends with job 159 of its trace; what follows is background
GAVEL_PAIRS = "artifact/gavel-las-packed"
GAVEL_NAMES = ("artifact/gavel-las", "artifact/gavel-las-agnostic", GAVEL_PAIRS)
OWED_NAMES = tuple(f"gavel-owed/{name}{end}" for name in OBJECTIVES for end in ("", AGNOSTIC))
DALLY, REASSIGN = "artifact/dally", "reassign"
NAMES = (*ROUND_NAMES, *GAVEL_NAMES, DALLY, REASSIGN, *OWED_NAMES)


class PublishedSpec(PolicySpec, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One column of the comparison, of the policies above."""

    round_s: float = 0.0
    shares_last_s: float | None = None
    leases: tuple[int, int, int, int] = (3600, 24, 6, 12)

    def __post_init__(self) -> None:
        PolicySpec.__post_init__(self)
        if not 0 <= self.round_s < math.inf or (self.round_s and self.policy not in GAVEL_NAMES):
            raise ValueError("round_s: seconds, of artifact/gavel-las* only")
        if self.shares_last_s is not None and not (0 <= self.shares_last_s < math.inf and self.policy in GAVEL_NAMES):
            raise ValueError("shares_last_s: seconds, of artifact/gavel-las* only")

    @property
    def has_parts(self) -> bool:
        return self.policy not in NAMES

    @property
    def walks(self) -> str:
        return self.order or ("nw-sens" if self.policy == DALLY else "fifo")


class Published(Policies):
    """Those of `palctl simulate`, and the names above."""

    spec = PublishedSpec

    @property
    def names(self) -> tuple[str, ...]:
        return (*super().names, *NAMES)

    def defaults(self, names: Sequence[str]) -> tuple[str, range | None]:
        """PAL's published code knows no backfill."""
        if any(name in ROUND_NAMES for name in names):
            return "none", range(TRACKED)
        return super().defaults(names)

    def scheduler(
        self, spec: PolicySpec, setting: Setting, known: ScoreTable, seed: int, sharing: Sharing = NOBODY_SHARES
    ) -> Scheduler:
        name = spec.policy
        if name not in NAMES:
            return super().scheduler(spec, setting, known, seed, sharing)
        assert isinstance(spec, PublishedSpec)
        if spec.placement or spec.patience or spec.moving:
            raise ConfigError(f"{spec.label}: {name} says where jobs go; leave placement, patience and moving out.")
        if name not in OWED_NAMES and (spec.weights or spec.prices):
            raise ConfigError(f"{spec.label}: weights and prices are for gavel-owed/OBJECTIVE and gavel/OBJECTIVE.")
        if name == GAVEL_PAIRS:
            return GavelPairs(spec.label, setting.cluster, sharing, pace=_pace(spec))
        if name in GAVEL_NAMES:
            agnostic = name.endswith(AGNOSTIC)
            return GavelLoop(spec.label, setting.cluster, seed, agnostic=agnostic, pace=_pace(spec))
        moves = setting.requeue if spec.moves is None else spec.moves
        if name in OWED_NAMES:
            return Preemptive(spec.label, _owing(spec, setting, known), moves=moves)
        order, changing = order_named(spec.walks), spec.walks in CHANGING
        fill = spec.fill or ("none" if name in ROUND_NAMES else "easy")
        if name in ROUND_NAMES:
            rounds = PalRounds(name, setting.cluster, known, setting.locality, order, fill=fill, changing=changing)
            rounds.name = spec.label
            return rounds
        if name == DALLY:
            return Preemptive(spec.label, Leases(Dally(*spec.leases), order, setting.cluster), moves=moves)
        who = admission(fill, order, setting.cluster.n_gpus, changing=changing)
        assignment = ReassignGpus(who, setting.cluster, known, setting.rules.restart_cost_s)
        return Preemptive(spec.label, assignment, moves=moves, restless=changing and fill != "easy")


scheduler_for = Published().scheduler


def _pace(spec: PublishedSpec) -> GavelPace:
    lasts = AS_PUBLISHED.shares_last_s if spec.shares_last_s is None else spec.shares_last_s
    return GavelPace(spec.round_s or AS_PUBLISHED.round_s, lasts)


def _owing(spec: PublishedSpec, setting: Setting, known: ScoreTable) -> OwedAssignment:
    unknown = sorted(set(spec.prices) - set(setting.cluster.models))
    if unknown:
        raise ConfigError(f"{spec.label}: prices: there is no GPU model {unknown[0]!r} in the cluster.")
    objective = objective_named(spec.policy.partition("/")[2])
    return OwedAssignment(
        objective, Terms(spec.weights, spec.prices), setting.cluster, known, setting.rules.restart_cost_s
    )
