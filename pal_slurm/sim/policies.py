"""Policies by name or file, as `palctl simulate --policy` takes them. In: a name or YAML. Out: schedulers.

A YAML file names a policy and changes parts of it:

    name: las-packed      # what tables call it
    policy: packed        # a name as --policy takes it
    order: las            # slurm, fifo, las, srtf
    placement: pm-first   # not for a `pal` that moves jobs
    patience: none        # likewise
    fill: easy            # none, easy, holes
    moves: false          # whether running jobs may be moved (only `pal` moves any, if `moving` does not say so)
    moving: assign        # none, assign, value, pools, pools-learned, owed/OBJECTIVE: how running jobs make way;
                          # `value` is pald's
    shares: false         # nobody gets GPUs that another has, whatever --sharing says (`pal` on several models)
    weights: {ml: 2}      # for gavel/OBJECTIVE: of accounts, or of users without one; 1
    prices: {v100: 3.1}   # for gavel/cost and gavel/cost-slo: of a GPU of a model; 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pal_slurm.config.moves import MovesSection
from pal_slurm.errors import ConfigError
from pal_slurm.model import NOBODY_SHARES, Cluster, ScoreTable, Sharing
from pal_slurm.policy.composition import NAMED, compose
from pal_slurm.policy.moving.owed import Bargain, Owed
from pal_slurm.policy.moving.pools import Pools
from pal_slurm.policy.seams import fills, movings
from pal_slurm.scores import alike, binned
from pal_slurm.sim.engine import ClusterRules, Scheduler
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.looks import Looks

POOLS = ("pools", "pools-learned")


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One column of the comparison. Empty: as the policy has it by default."""

    name: str = ""
    policy: str = "pal"
    order: str = ""
    placement: str = ""
    patience: str = ""
    fill: str = ""
    moves: bool | None = None
    moving: str = ""
    shares: bool | None = None
    weights: dict[str, float] = {}
    prices: dict[str, float] = {}

    def __post_init__(self) -> None:
        for name, least in (("weights", 0.0), ("prices", 1e-9)):
            for key, value in getattr(self, name).items():
                if not least <= value < math.inf:
                    raise ValueError(f"{name}.{key}: {value:g} can't be")

    @property
    def label(self) -> str:
        return self.name or self.policy

    @property
    def has_parts(self) -> bool:
        """Placement, patience and moving can be named; else it is one whole."""
        return True

    @property
    def walks(self) -> str:
        """The order in which it goes over the jobs."""
        return self.order or "fifo"


@dataclass(frozen=True, slots=True)
class Setting:
    """What every policy of a comparison is given alike."""

    cluster: Cluster
    locality: float
    rules: ClusterRules
    requeue: bool  # jobs may be stopped and moved
    learns: bool = False  # how fast applications are on each model is not told
    moves: MovesSection | None = None  # pald's bounds on moves, where they are not the defaults


def policy_names() -> tuple[str, ...]:
    owed = (name.replace("owed/", "gavel/") for name in movings.names() if name.startswith("owed/"))
    return (*sorted(NAMED), *owed)


class Policies:
    """The policies that a command compares. These are those of `palctl simulate`; benchmarks/published has more."""

    spec: type[PolicySpec] = PolicySpec

    @property
    def names(self) -> tuple[str, ...]:
        return policy_names()

    def read(self, text: str) -> PolicySpec:
        """A name, or the path of a YAML file."""
        if text in self.names:
            return self.spec(policy=text)
        path = Path(text)
        if path.suffix not in (".yaml", ".yml"):
            raise ConfigError(f"There is no policy {text!r}{self._others(text)}.")
        try:
            spec = msgspec.yaml.decode(path.read_bytes(), type=self.spec)
        except OSError as exc:
            raise ConfigError(f"{path} can't be read: {exc.strerror}.") from exc
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise ConfigError(f"{path}: {exc}.") from exc
        if spec.policy not in self.names:
            raise ConfigError(f"{path}: there is no policy {spec.policy!r}{self._others(spec.policy)}.")
        return spec if spec.name else msgspec.structs.replace(spec, name=path.stem)

    def _others(self, name: str) -> str:
        if name.startswith("artifact/"):
            return " here; `python -m benchmarks.published`, in the source tree, has those that others published"
        return f"; choose one of {', '.join(self.names)}, or FILE.yaml"

    def defaults(self, names: Sequence[str]) -> tuple[str, range | None]:
        """The fill, and the jobs that count (None: all), where no option says so and these are compared."""
        return "easy", None

    def scheduler(
        self, spec: PolicySpec, setting: Setting, known: ScoreTable, seed: int, sharing: Sharing = NOBODY_SHARES
    ) -> Scheduler:
        return scheduler_for(spec, setting, known, seed, sharing)


POLICIES = Policies()


def read_policy(text: str) -> PolicySpec:
    return POLICIES.read(text)


def scheduler_for(
    spec: PolicySpec, setting: Setting, known: ScoreTable, seed: int, sharing: Sharing = NOBODY_SHARES
) -> Scheduler:
    """The scheduler of a policy; errors name what does not go together. `sharing`: what it is told of pairs."""
    if spec.fill and spec.fill not in fills.names():
        raise ConfigError(f"{spec.label}: there is no fill {spec.fill!r}; choose one of {', '.join(fills.names())}.")
    if spec.shares is not None and spec.policy != "pal":
        raise ConfigError(f"{spec.label}: shares is for pal.")
    moves = setting.requeue if spec.moves is None else spec.moves
    if spec.policy.partition("/")[0] == "gavel":
        return _entitled(spec, setting, known, moves=moves)
    if spec.weights or spec.prices:
        raise ConfigError(f"{spec.label}: weights and prices are for gavel/OBJECTIVE.")
    moving = spec.moving or _moving(spec, setting, moves)
    if movings.get(moving) is not None:
        if spec.placement or spec.patience:
            raise ConfigError(f"{spec.label}: moving {moving!r} says where jobs go; leave placement and patience out.")
        composition = compose(spec.policy, order=spec.walks, fill=spec.fill, moving=moving)
        if moving in POOLS and spec.shares is not False:
            composition = replace(composition, moving=Pools(learns=moving == "pools-learned", sharing=sharing))
        return InPlanner(spec.label, setting.cluster, known, composition, setting.rules.restart_cost_s, moves=moves)
    if spec.fill == "holes":
        raise ConfigError(f"{spec.label}: fill `holes` stops jobs again; only a moving `pal` can.")
    placement = spec.placement or NAMED[spec.policy][1]
    if placement == "random":
        placement = f"random({seed})"
    composition = compose(
        spec.policy, order=spec.order or "fifo", placement=placement, patience=spec.patience, fill=spec.fill
    )
    ties = binned(known.classes, known.score, known.known, alike)  # as pald sees its scores
    looks = Looks(setting.rules.restart_cost_s, setting.moves) if moving == "value" and moves else None
    return InPlanner(spec.label, setting.cluster, ties, composition, looks=looks)


def _entitled(spec: PolicySpec, setting: Setting, known: ScoreTable, *, moves: bool) -> Scheduler:
    """`gavel/OBJECTIVE`: what jobs are owed says who runs where."""
    if spec.placement or spec.patience or spec.moving:
        raise ConfigError(f"{spec.label}: what is owed says where jobs go; leave placement, patience and moving out.")
    unknown = sorted(set(spec.prices) - set(setting.cluster.models))
    if unknown:
        raise ConfigError(f"{spec.label}: prices: there is no GPU model {unknown[0]!r} in the cluster.")
    objective = spec.policy.partition("/")[2] or "max-min"
    composition = compose("packed", order=spec.order or "fifo", fill=spec.fill, moving=f"owed/{objective}")
    composition = replace(composition, moving=Owed(objective, Bargain(spec.weights, spec.prices)))
    return InPlanner(spec.label, setting.cluster, known, composition, setting.rules.restart_cost_s, moves=moves)


def _moving(spec: PolicySpec, setting: Setting, moves: bool) -> str:
    """What `pal` does by itself: pools where there are several models, also when nobody may be moved."""
    if spec.policy != "pal" or spec.placement:
        return "none"
    if len(setting.cluster.models) > 1 and not spec.patience and spec.fill in ("", "easy"):
        return "pools-learned" if setting.learns else "pools"
    return "assign" if moves else "none"
