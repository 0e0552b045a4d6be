"""What a mini-cluster is to be: command line -> `Spec`, checked, and to JSON and back."""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any

from .errors import MiniclusterError

RELEASES = ("native", "24.11", "26.05")
GRES_KINDS = ("slots", "typed", "none")
ACTUATORS = ("pin", "move", "shadow")
PROFILES = ("perfect", "none", "measured")
MAX_NODES = 512
MAX_GPUS = 16
MAX_HOLLOW = 20_000
MAX_SHARDS = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_PATIENCE = re.compile(r"[a-z]+(\([0-9]+(,[0-9]+)*\))?")
_COMM = re.compile(r"[0-9.]+/[0-9.]+/[0-9.]+")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True)
class Spec:
    """One cluster, as asked for. Nodes are n1..nN; a rack is `rack_size` nodes in a row."""

    name: str
    release: str = "native"
    nodes: int = 16
    gpus: int = 4
    gres: str = "slots"
    models: dict[str, int] = field(default_factory=dict)
    rack_size: int = 8
    partitions: dict[str, str] = field(default_factory=dict)
    dbd: bool = False
    pal: bool = True
    stock_scheduling: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    node: dict[str, str] = field(default_factory=dict)  # of all nodes' lines, also instead of ours
    partition: dict[str, str] = field(default_factory=dict)  # of all partitions' lines
    near: bool = False  # gres.conf tells which socket a GPU is near
    port: int | None = None
    users: list[str] = field(default_factory=list)
    pald: bool = False
    actuator: str = "pin"
    profile: str = "perfect"
    policy: str = "pal"
    patience: str = ""
    comm: dict[str, str] = field(default_factory=dict)  # what distance costs an application: NODE/RACK/CLUSTER
    page: bool = False
    pal_yaml: str = ""  # more sections of it
    hollow: int = 0
    shards: int = 0  # of each GPU
    backup: bool = False  # a second slurmctld stands by
    pairs: dict[str, dict[str, float]] = field(default_factory=dict)  # application, the one beside it: a factor

    def __post_init__(self) -> None:
        checks = [
            (_NAME.fullmatch(self.name), f"--name {self.name!r}: letters, digits, '.', '_' and '-' only, at most 32"),
            (self.release in RELEASES, f"--slurm {self.release!r}: choose one of {', '.join(RELEASES)}"),
            (1 <= self.nodes <= MAX_NODES, f"--nodes {self.nodes}: must be 1 to {MAX_NODES}"),
            (0 <= self.gpus <= MAX_GPUS, f"--gpus {self.gpus}: must be 0 to {MAX_GPUS} per node"),
            (0 <= self.hollow <= MAX_HOLLOW, f"--hollow {self.hollow}: must be 0 to {MAX_HOLLOW}"),
            (0 <= self.shards <= MAX_SHARDS, f"--shards {self.shards}: must be 0 to {MAX_SHARDS} per GPU"),
            (self.shards or not self.pairs, "--pairs is what sharing costs: add --shards"),
            (self.gpus or not self.shards, "--shards are parts of GPUs: there are none with --gpus 0"),
            (self.gres in GRES_KINDS, f"--gres {self.gres!r}: choose one of {', '.join(GRES_KINDS)}"),
            (self.rack_size >= 1, f"--rack-size {self.rack_size}: must be at least 1"),
            (self.actuator in ACTUATORS, f"--actuator {self.actuator!r}: choose one of {', '.join(ACTUATORS)}"),
            (self.profile in PROFILES, f"--profile {self.profile!r}: choose one of {', '.join(PROFILES)}"),
            (
                all(map(_WORD.fullmatch, self.policy.split("/"))),
                f"--policy {self.policy!r} is not the name of a policy",
            ),
            (not self.patience or _PATIENCE.fullmatch(self.patience), f"--patience {self.patience!r} is not one"),
            (not self.pald or (self.pal and self.gpus), "--pald needs GPUs, the plugin and job_submit.lua"),
            (not self.page or self.pald, "--page shows what pald sees: add --pald"),
            (self.port is None or 1024 <= self.port <= 65000, f"--port {self.port}: must be 1024 to 65000"),
        ]
        checks += [(_WORD.fullmatch(m), f"--models: {m!r} is not a GPU model's name") for m in self.models]
        checks += [
            (
                _WORD.fullmatch(app) and _COMM.fullmatch(cost),
                f"--comm: {app}={cost} is not of the form APP=NODE/RACK/CLUSTER",
            )
            for app, cost in self.comm.items()
        ]
        if self.models:
            total = sum(self.models.values())
            checks.append((total == self.nodes, f"--models names {total} nodes, but the cluster has {self.nodes}"))
        for ok, sentence in checks:
            if not ok:
                raise MiniclusterError(sentence)

    @property
    def node_names(self) -> list[str]:
        return [f"n{i}" for i in range(1, self.nodes + 1)]

    @property
    def slots(self) -> list[str]:
        return [f"g{i}" for i in range(self.gpus)]

    def model_of(self, node: int) -> str:
        """GPU model of node number `node` (from 1)."""
        seen = 0
        for model, count in self.models.items():
            seen += count
            if node <= seen:
                return model
        return "a100"

    def rack_of(self, node: int) -> str:
        """Rack of node number `node` (from 1)."""
        return f"rack{(node - 1) // self.rack_size + 1}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Spec":
        fields: dict[str, Any] = json.loads(text)
        return cls(**fields)


def costs_of_pairs(text: str) -> dict[str, dict[str, float]]:
    """`a+b=1.4/1.2`: a takes 1.4 times as long beside b, and b 1.2 times beside a."""
    found: dict[str, dict[str, float]] = {}
    for apps, costs in pairs(text, "--pairs").items():
        one, plus, other = apps.partition("+")
        try:
            first, second = map(float, costs.split("/"))
        except ValueError:
            first = second = 0.0
        named = plus and _WORD.fullmatch(one) and _WORD.fullmatch(other)
        if not (named and 1 <= first <= 100 and 1 <= second <= 100):
            raise MiniclusterError(f"--pairs: {apps}={costs} is not of the form APP+OTHER=1.4/1.2")
        found.setdefault(one, {})[other] = first
        found.setdefault(other, {})[one] = second
    return found


def lines(items: list[str], option: str) -> dict[str, str]:
    """Each `KEY=VALUE`; the last of a key counts."""
    found: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not (key and equals) or "\n" in item:
            raise MiniclusterError(f"{option} {item!r} is not of the form KEY=VALUE")
        found[key] = value
    return found


def pairs(text: str, option: str) -> dict[str, str]:
    """`a=1,b=2` -> {"a": "1", "b": "2"}; commas within brackets (`n[1,3]`) do not separate."""
    found: dict[str, str] = {}
    for item in re.split(r",(?![^\[]*\])", text):
        key, equals, value = item.partition("=")
        if not (key and equals and value):
            raise MiniclusterError(f"{option} {text!r}: {item!r} is not of the form key=value")
        found[key] = value
    return found
