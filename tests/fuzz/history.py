"""What happened in one world, as the simulated Slurm and the disk saw it: all that the judge may read.

Times are seconds since the world's beginning. A job is known by the line of the script that submitted it, and its task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Name = tuple[int, int | None]  # line of the script, task of its array


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the queue at one moment, in Slurm's own words."""

    job: Name
    number: int
    state: str
    begin: float
    held: bool
    waits: bool  # for another job
    tasks: tuple[int, ...]  # of an array's common record
    marked: bool
    required: str
    excluded: str
    features: str
    partition: str
    least: int
    most: int
    per_node: str
    per_job: str
    per_task: str
    per_socket: str
    ntasks: int
    cpus: int
    limit: int | None
    comment: str | None
    reservation: str
    restarts: int
    submit: float
    nice: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    at: float
    record: Record


@dataclass(frozen=True, slots=True)
class Row:
    """The newest step in the ledger of one job, read from the disk by another connection."""

    id: int
    kind: str
    nodes: tuple[str, ...]
    until: float | None
    fence: int
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Lead:
    """The leader's row on the disk."""

    pald: str  # by the name of its lock file
    fence: int


@dataclass(frozen=True, slots=True)
class Updated:
    at: float
    pald: str
    life: int  # of that pald: each start is a new one
    target: str
    nodes: str | None  # None: not in the update
    gres: Mapping[str, str]
    partition: str | None
    begin: float | None  # None: now
    fate: str
    said: str
    before: tuple[Record, ...]
    after: tuple[Record, ...]
    row: Row | None
    lead: Lead | None
    asked: float  # when its writer asked for the snapshot that this rests on
    content: float  # of when what that snapshot told was true
    looked: float  # when its writer last read this job again
    content_n: int  # events that had happened by `content`, and by `looked`: moments may be the same
    looked_n: int
    sent: float  # when its writer let go of it
    requeue: bool = False  # of a running job
    signal: str = ""  # sent to it, and nothing else


@dataclass(frozen=True, slots=True)
class Part:
    node: str
    slots: frozenset[int]
    cpus: int
    shared: frozenset[int] = frozenset()  # of these GPUs it has a part


@dataclass(frozen=True, slots=True)
class Started:
    at: float
    record: Record  # as it waited
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    at: float
    job: Name
    state: str
    ran: bool  # False: it was still waiting
    nice: int = 0


@dataclass(frozen=True, slots=True)
class Requeued:
    """It holds its GPUs no more, and waits again."""

    at: float
    job: Name
    record: Record


@dataclass(frozen=True, slots=True)
class Stopped:
    """Its requeue begins: by a pald, or (empty) by itself, its user, its node."""

    at: float
    job: Name
    by: str


@dataclass(frozen=True, slots=True)
class Signalled:
    at: float
    job: Name
    signal: str


@dataclass(frozen=True, slots=True)
class UserDid:
    """`what`: edit, says, hold, release, lower (its priority), cancel, begin, requeue."""

    at: float
    line: int
    what: str
    words: tuple[str, ...]
    after: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class NodeSet:
    at: float
    node: str
    state: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something went wrong with pald or its surroundings, until `until`."""

    at: float
    until: float
    what: str
    pald: str = ""
    point: str = ""  # where it came upon it


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that slurmctld was given, and what it took."""

    at: float
    pald: str
    life: int
    verb: str
    took: float


@dataclass(frozen=True, slots=True)
class CycleEnded:
    began: float
    at: float
    pald: str
    end: str
    note: str
    leads: bool


@dataclass(frozen=True, slots=True)
class Declined:
    """In this cycle a pald kept a job that could start, for a better start, by what it tells its user."""

    at: float
    job: Name
    pool: bool  # for another GPU model
    content_n: int  # events that its snapshot told of
    targets: tuple[tuple[Name, str, tuple[int, ...]], ...] = ()  # of movers on their way: a node, and slots there


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the ledger when all was over."""

    id: int
    job: int
    task: int | None
    kind: str
    nodes: tuple[str, ...]
    outcome: str | None
    closed: bool
    said: str
    fence: int


Event = (
    Submitted | Updated | Started | Ended | Requeued | Stopped | Signalled | UserDid | NodeSet | Trouble | Asked
    | CycleEnded | Declined
)  # fmt: skip


@dataclass
class History:
    nodes: Mapping[str, int]  # GPUs by node
    setting: Mapping[str, str]
    options: Mapping[int, tuple[str, ...]]  # of each line
    events: list[Event] = field(default_factory=list)
    users: Mapping[int, str] = field(default_factory=dict)  # whose each line is
    ledger: list[Step] = field(default_factory=list)
    left: list[Record] = field(default_factory=list)  # still waiting when all was over
    alone: Mapping[Name, float] = field(default_factory=dict)  # first starts in the same world without pald
    alone_places: Mapping[Name, tuple[Part, ...]] = field(default_factory=dict)
    neutral: Mapping[Name, tuple[Part, ...]] | None = None  # first places in the same world without any score
    honest: Mapping[Name, tuple[Part, ...]] | None = None  # first places in the same world in which nobody lies
    honest_tags: Mapping[Name, Started] | None = None  # first starts in the same world in which no tag is forged
    modest: Mapping[Name, float] | None = None  # first starts in the same world in which nobody claims to be late
    unshared: Mapping[Name, float] | None = None  # first starts in the same world in which nobody shares a GPU
    mended: float = 0.0  # from then on nothing was wrong any more
    ended: float = 0.0
    restless: bool = False  # pald made cycle after cycle, and the world was ended
    broke: str = ""  # an exception that left pald
