"""The nouns, and the one speed equation. Imports numpy and the standard library only."""

from pal_slurm.model.app import APP_NAME, NO_HINT, TOLD, UNREADABLE, App, Apps, Hint, RatedApp, Trust, read_hint
from pal_slurm.model.cluster import BoolArray, Cluster, FloatArray, IntArray, Tier, homogeneous
from pal_slurm.model.consent import MOVABLE, NO_CONSENT, Consent, Given, consent_of
from pal_slurm.model.edit import (
    LATE,
    NOT_SENT,
    Edit,
    EditKind,
    EditResult,
    Exclude,
    Fence,
    Include,
    LeaseAgain,
    OfRunning,
    Outcome,
    Pin,
    Plain,
    Renew,
    Renice,
    Requeue,
    Unpin,
    Warn,
    until,
)
from pal_slurm.model.job import SHARED_LIMITS, Excluded, Job, JobRef, JobState, Lease, Request, Shape, Waits
from pal_slurm.model.move import Ending, Move
from pal_slurm.model.operation import KIND_OF, STEPS, Intent, NotBegun, OperationKind
from pal_slurm.model.partition import ANYBODY, PartitionRule
from pal_slurm.model.placement import Action, Alongside, Decision, MoveTerms, Placement, PoolCost, Reason
from pal_slurm.model.pools import NO_RULES, Dearer, PoolRules
from pal_slurm.model.run import PastRun, RunEnd
from pal_slurm.model.run_times import RunEstimate, RunTimes, named
from pal_slurm.model.scores import Ranked, ScoreTable, bins_with_neutral, neutral_scores
from pal_slurm.model.shares import NO_SHARES, Due, FairShares
from pal_slurm.model.sharing import (
    NOBODY_SHARES,
    JobKind,
    KnownPairs,
    PairsByUser,
    PairsOfUser,
    Sharers,
    Sharing,
)
from pal_slurm.model.snapshot import Knowledge, Reservation, Snapshot, fence_of, over
from pal_slurm.model.speed import (
    Factors,
    Gpus,
    Speeds,
    base_of,
    comm_of,
    factors,
    flat,
    minds_links,
    placement_of,
    predict,
    shared_comm,
    speeds_of,
    step_time,
)
from pal_slurm.model.wide_jobs import WideJobs

__all__ = [
    "ANYBODY", "APP_NAME", "KIND_OF", "LATE", "MOVABLE", "NOBODY_SHARES", "NOT_SENT", "NO_CONSENT", "NO_HINT",
    "NO_RULES", "NO_SHARES", "SHARED_LIMITS", "STEPS", "TOLD", "UNREADABLE", "Action", "Alongside", "App", "Apps",
    "BoolArray", "Cluster", "Consent", "Dearer", "Decision", "Due", "Edit", "EditKind", "EditResult", "Ending",
    "Exclude", "Excluded", "Factors", "FairShares", "Fence", "FloatArray", "Given", "Gpus", "Hint", "Include",
    "IntArray", "Intent", "Job", "JobKind", "JobRef", "JobState", "Knowledge", "KnownPairs", "Lease", "LeaseAgain",
    "Move", "MoveTerms", "NotBegun", "OfRunning", "OperationKind", "Outcome", "PairsByUser", "PairsOfUser",
    "PartitionRule", "PastRun", "Pin", "Placement", "Plain", "PoolCost", "PoolRules", "Ranked", "RatedApp", "Reason",
    "Renew", "Renice", "Request", "Requeue", "Reservation", "RunEnd", "RunEstimate", "RunTimes", "ScoreTable",
    "Shape", "Sharers", "Sharing", "Snapshot", "Speeds", "Tier", "Trust", "Unpin", "Waits", "Warn", "WideJobs",
    "base_of", "bins_with_neutral", "comm_of", "consent_of", "factors", "fence_of", "flat", "homogeneous",
    "minds_links", "named", "neutral_scores", "over", "placement_of", "predict", "read_hint", "shared_comm",
    "speeds_of", "step_time", "until",
]  # fmt: skip
