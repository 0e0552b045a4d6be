"""What the guard answers, and what it must be told about the site. In: a decision. Out: Permit or Refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pal_slurm.model import Decision


@dataclass(frozen=True, slots=True)
class MoveRules:
    """How far the site lets running jobs be moved, and how much of that is used up."""

    proven: frozenset[tuple[str, str]] | None = None  # (user, application); None: --requeue alone is no consent
    first_s: float = 300.0  # a running job is left alone for so long after its start
    last_s: float = 900.0  # and before its end
    per_job: int = 4  # a day
    per_user: int = 20  # an hour
    per_cluster: int = 60  # an hour
    at_once: int = 8  # going on at a time
    fence: bool = True  # a reservation may keep others from the GPUs of a mover
    share: float = 0.02  # of the GPU time of all GPUs that moves may lose, over the last hour
    other_slots: bool = True  # this release can ask for other slots, or nodes, than a job was pinned to before
    of_job: Mapping[int, int] = field(default_factory=dict)  # done so far
    of_user: Mapping[str, int] = field(default_factory=dict)
    of_cluster: int = 0
    going_on: frozenset[int] = frozenset()  # jobs
    on_way: int = 0  # of these, those whose place is not yet the planner's to find: `at_once` is about them
    saving: Mapping[str, int] = field(default_factory=dict)  # of these, by user: those that have been asked to save
    bound: Mapping[int, str] = field(default_factory=dict)  # jobs that would lose by a requeue what no pin gives back
    losers: frozenset[str] = frozenset()  # users whose jobs' moves did not pay
    silent: frozenset[str] = frozenset()  # users whose jobs did not answer lately when they were asked to save
    lost_gpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Facts beside the snapshot that a start depends on."""

    disable_job_shrink: bool  # without it a node list that meets a running job kills its steps
    exact_slots: bool = True  # this release takes typed slot requests
    margin_s: float = 3.0  # a lease that ends within this time may start the job before our edit arrives
    moves: MoveRules | None = None  # None: nobody is moved
    parts: bool = False  # two jobs may have one GPU: the site wants it, and this release can be asked for parts
    accounts: bool = True  # nobody can name one that is not his
    preempts_by_tier: bool = False  # a job may be started in the place of one of a lower partition


class Cause(StrEnum):
    """Why a start was refused; stable words for metrics and tests."""

    MODEL = "model"
    NOT_A_START = "not-a-start"
    TWICE = "twice"
    GONE = "gone"
    NOT_PENDING = "not-pending"
    NOT_RUNNING = "not-running"
    NO_CONSENT = "no-consent"
    TOO_EARLY = "too-early"
    TOO_LATE = "too-late"
    MOVES_OFF = "moves-off"
    MOVE_BUDGET = "move-budget"
    NEAR_LIMIT = "near-limit"
    BOUND = "bound"
    WOULD_BE_TAKEN = "would-be-taken"
    PARTNER = "partner"
    NO_LEASE = "no-lease"
    LEASE_ENDING = "lease-ending"
    NOT_ELIGIBLE = "not-eligible"
    HELD = "held"
    HANDS_OFF = "hands-off"
    NO_SUCH_TASK = "no-such-task"
    ARRAY_LIMIT = "array-limit"
    JOB_SHRINK = "job-shrink"
    NO_PLACEMENT = "no-placement"
    NO_SUCH_NODE = "no-such-node"
    NODE_NOT_OK = "node-not-ok"
    NO_SUCH_GPU = "no-such-gpu"
    GPU_TAKEN = "gpu-taken"
    SHAPE = "shape"
    NO_PARTS = "no-parts"
    NOT_ALIKE = "not-alike"
    NO_ROOM_BESIDE = "no-room-beside"
    NO_SLOTS = "no-slots"
    UNEQUAL_SLOTS = "unequal-slots"
    SLOT_RACE = "slot-race"
    CPUS = "cpus"
    MEMORY = "memory"
    PARTITION = "partition"
    FEATURES = "features"
    EXCLUDED = "excluded"
    TOO_FEW_LEFT = "too-few-left"
    RESERVATION = "reservation"


@dataclass(frozen=True, slots=True)
class Permit:
    decision: Decision


@dataclass(frozen=True, slots=True)
class Refusal:
    decision: Decision
    reason: Cause
    said: str  # one sentence: what is wrong, and with which node or GPU


Verdict = Permit | Refusal


class No(Exception):
    """Carries a refusal out of the checks; never leaves the guard."""

    def __init__(self, cause: Cause, said: str) -> None:
        super().__init__(said)
        self.cause = cause
        self.said = said
