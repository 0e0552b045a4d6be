"""Policies by name or file, as `palctl simulate --policy` takes them. In: a name or YAML. Out: schedulers.

A YAML file names a policy and changes parts of it:

    name: two-models      # what tables call it
    policy: packed        # a name as --policy takes it
    order: fifo           # of pal.yaml's; without it Slurm's own, which is FIFO here
    placement: pm-first
    patience: none
    fill: easy            # none, easy
    moves: false          # whether running jobs may be moved
    moving: value         # none, value: how running jobs make way; without it `pal` and gavel/* move jobs, if these
                          # may be moved, and the others none
    shares: false         # nobody gets GPUs that another has, whatever --sharing says (else in `pal` and gavel/*)
    weights: {ml: 2}      # for gavel/OBJECTIVE: of users; 1
    prices: {v100: 3.1}   # for gavel/cost and gavel/cost-slo: of a GPU of a model; 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from pal_slurm.config.composition import composition_of
from pal_slurm.config.moves import MovesSection
from pal_slurm.config.schema import PolicySection
from pal_slurm.errors import ConfigError
from pal_slurm.model import NOBODY_SHARES, Cluster, ScoreTable, Sharing
from pal_slurm.policy.composition import NAMED, OURS, composition_names
from pal_slurm.scores import alike, binned
from pal_slurm.sim.engine import ClusterRules, Scheduler
from pal_slurm.sim.in_planner import InPlanner
from pal_slurm.sim.in_snapshots import InSnapshots
from pal_slurm.sim.looks import Looks


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One column of the comparison. Empty: as the policy has it by default."""

    name: str = ""
    policy: str = "pal"
    order: str = ""
    placement: str = ""
    patience: str = ""
    fill: str = ""
    moves: bool | None = None
    moving: Literal["", "none", "value"] = ""
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
        """The order in which it considers jobs: Slurm's own is FIFO here, where all jobs have one priority."""
        return self.order or "fifo"

    @property
    def _ours(self) -> bool:
        return self.policy.partition("/")[0] in OURS

    def moved(self, *, may: bool) -> bool:
        """Whether it moves running jobs. `may`: they may be moved, if it says nothing else."""
        return (may if self.moves is None else self.moves) and (
            self.moving or ("value" if self._ours else "none")
        ) == "value"

    @property
    def shared(self) -> bool:
        """Whether two jobs may have one GPU."""
        return self._ours if self.shares is None else self.shares


@dataclass(frozen=True, slots=True)
class Setting:
    """What every policy of a comparison is given alike."""

    cluster: Cluster
    locality: float
    rules: ClusterRules
    requeue: bool  # jobs may be stopped and moved
    moves: MovesSection | None = None  # pald's bounds on moves, where they are not the defaults


def policy_names() -> tuple[str, ...]:
    return composition_names()


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
    if spec.fill not in ("", "none", "easy"):
        raise ConfigError(f"{spec.label}: there is no fill {spec.fill!r}; choose none or easy.")
    unknown = sorted(set(spec.prices) - set(setting.cluster.models))
    if unknown:
        raise ConfigError(f"{spec.label}: prices: there is no GPU model {unknown[0]!r} in the cluster.")
    composition = composition_of(msgspec.convert(section_of(spec, seed), PolicySection))
    if composition.entitlement is None and (spec.weights or spec.prices):
        raise ConfigError(f"{spec.label}: weights and prices are for gavel/OBJECTIVE.")
    ties = binned(known.classes, known.score, known.known, alike)  # as pald sees its scores
    looks = Looks(setting.rules.restart_cost_s, setting.moves) if spec.moved(may=setting.requeue) else None
    pairs = sharing if spec.shared else NOBODY_SHARES
    if composition.entitlement is None and not pairs.beside:
        return InPlanner(spec.label, setting.cluster, ties, composition, looks=looks)
    return InSnapshots(
        spec.label, setting.cluster, ties, composition, looks=looks, sharing=pairs, weights=spec.weights,
        prices=spec.prices,
    )  # fmt: skip


def section_of(spec: PolicySpec, seed: int = 0) -> dict[str, object]:
    """The same policy in the words of pal.yaml's `policy`: pald and the simulator make its composition of these."""
    if not spec.has_parts:
        raise ConfigError(f"{spec.label}: pald has no such policy; --daemon takes those of pal.yaml.")
    placement = spec.placement or NAMED[spec.policy.partition("/")[0]][1]
    return {
        "name": spec.policy,
        "order": spec.order,
        "placement": f"random({seed})" if placement == "random" else spec.placement,
        "patience": spec.patience,
        "backfill": None if not spec.fill else spec.fill == "easy",
    }
