"""Jobs as Slurm tells them. In: a backend's record. Out: Job, Shape, Request, Lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from pal_slurm.model.app import NO_HINT, Hint
from pal_slurm.model.consent import NO_CONSENT, Consent
from pal_slurm.model.hostlist import expand_hosts


class JobRef(NamedTuple):
    """One job for ever, or one task of an array: a job id may come round again, with its submit time it does not."""

    id: int
    submit: int
    task: int | None = None


class JobState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"  # also completing, suspended, configuring: it holds its resources
    OTHER = "other"


class Waits(Enum):
    """What keeps a waiting job, as Slurm tells it."""

    UNSEEN = auto()  # nothing yet: Slurm has not looked at it since it came, or was edited
    BEGIN = auto()  # its begin time is to come
    TURN = auto()  # a job ahead: Slurm's main pass ends there, only backfill looks beyond
    ROOM = auto()
    NODES = auto()  # nodes that it must have are away
    NEVER = auto()  # as it stands it can't be had; waiting longer doesn't help
    LIMIT = auto()  # licences, a reservation ...: not about where it would run
    OWN_LIMIT = auto()  # a limit of its user alone: his other jobs wait for it too
    THEIR_LIMIT = auto()  # one of its account, QOS or partition: others' jobs wait for it too
    HELD = auto()
    BLOCKED = auto()  # something else that no free GPU can give: a dependency, a closed partition
    OTHER = auto()  # a word that we don't know


SHARED_LIMITS = (Waits.OWN_LIMIT, Waits.THEIR_LIMIT)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the job may be given, where it can be asked for. Exactly one of `gpus_per_node` and `gpus` is set."""

    min_nodes: int = 1
    max_nodes: int = 1
    gpus_per_node: int | None = None
    gpus: int | None = None
    cpus_per_node: int = 0  # least CPUs on each node, when the request is per node
    cpus: int = 1  # least CPUs in total
    mem_per_node_mb: int = 0
    mem_per_cpu_mb: int = 0
    fewest: bool = False  # a total that Slurm would put on as few nodes as have it free, and its user counts on that
    shares_cpus: bool = False  # where it finds none free it may have those of others: only Slurm can tell which
    by_slot: bool = True  # False: slots can't be named without costing it CPUs or steps; a pin names its nodes only

    def ways(self, width: int) -> Iterator[tuple[int, int]]:
        """(nodes, GPUs per node) that can be asked for with equal slots on each node, fewest nodes first."""
        if self.gpus_per_node is not None:
            for m in range(self.min_nodes, self.max_nodes + 1):
                yield m, self.gpus_per_node
        elif self.gpus is not None:
            for m in range(self.min_nodes, min(self.max_nodes, self.gpus) + 1):
                if self.gpus % m == 0 and self.gpus // m <= width:
                    yield m, self.gpus // m

    @property
    def least_gpus(self) -> int:
        if self.gpus is not None:
            return self.gpus
        return (self.gpus_per_node or 0) * self.min_nodes

    def cpus_on_each(self, nodes: int) -> int:
        return max(self.cpus_per_node, -(-self.cpus // max(nodes, 1)))  # none: a list of nodes that can't be read

    def mem_on_each(self, nodes: int) -> int:
        if not self.mem_per_cpu_mb:
            return self.mem_per_node_mb
        return max(self.mem_per_node_mb, self.mem_per_cpu_mb * self.cpus_on_each(nodes))


@dataclass(frozen=True, slots=True)
class Request:
    """The resource request in Slurm's own words, as it has to be restored to un-pin."""

    per_node: str = ""
    per_job: str = ""
    per_task: str = ""
    per_socket: str = ""
    min_nodes: int = 1
    max_nodes: int = 1  # 0: no most was given
    partition: str = ""
    features: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """Our mark on a job: when the lease that lua gave would have ended, and the request as it was."""

    end: int
    original: Request
    own_nodes: bool = False  # the user gave a node list: one that stands now is not a pin of ours
    not_before: int | None = None  # the user's own begin time: nobody starts it sooner
    moved: bool = False  # its begin time is neither lua's nor ours any more: it is kept as it is until it has come
    interactive: bool = False  # of srun or salloc
    requeue: bool | None = None  # --requeue or --no-requeue, where its user said one
    asked_to_move: bool = False  # pal:move at submission: its comment may have been changed since
    asked_to_share: bool = False  # the same of pal:share
    shards_of_users: bool = False  # it did, where users ask for parts of GPUs themselves: a stranger could come to it
    prefer: str = ""  # --prefer: features that it would rather have


@dataclass(frozen=True, slots=True)
class Pinned:
    """Where we said that a job shall run."""

    nodes: frozenset[str]
    slots: tuple[int, ...]  # none: by nodes alone


@dataclass(frozen=True, slots=True)
class Excluded:
    """Nodes that we excluded for a job, as its own list of excluded nodes tells."""

    nodes: frozenset[str]
    own: str  # what its user had written there


@dataclass(frozen=True, slots=True)  # a long queue is mostly these
class Job:
    """One record of the queue: a job, or the part of an array that has not started."""

    id: int
    state: JobState
    submit: int  # epoch seconds, as all times here
    user: str
    account: str = ""
    qos: str = ""
    partitions: tuple[str, ...] = ()
    priority: int = 0
    tier: int = 1  # the highest of its partitions
    reason: str = ""  # Slurm's own word: to be told, never compared
    why: Waits = Waits.UNSEEN  # the same for programs
    eligible: int | None = None
    start: int | None = None  # running: when it started; pending: Slurm's plan, or the end of its begin time
    time_limit_s: int | None = None  # None: no limit
    least_limit_s: int | None = None  # --time-min: to start it sooner, Slurm may cut its limit down to that
    end: int | None = None  # running: start + limit
    shape: Shape | None = None  # None: asks for no GPU, or in a way that can't be pinned: no plan, guard or edit does
    roughly: Shape = Shape(gpus=1)  # what Slurm will probably look for, also where `shape` is None
    gpu_job: bool = False
    request: Request = Request()  # as it stands now
    slots: tuple[int, ...] = ()  # that this request names
    shard: bool = False  # it names them as parts, which others may have too: a pin of ours
    by_part: bool = False  # one GPU on one node, which could be asked for as a part of one with nothing else changed
    gpus_limited: bool = False  # a limit on GPUs binds it that a part of one would not count against
    types: tuple[str, ...] = ()  # of GRES that its user named: GPU models
    required_nodes: str = ""
    excluded_nodes: str = ""  # as it was written, where that can be known
    excluded: Excluded | None = None  # of these, those that we added
    features: str = ""
    reservation: str = ""
    dependency: str = ""
    planned_nodes: str = ""
    hint: Hint = NO_HINT
    consent: Consent = NO_CONSENT  # to be moved while it runs
    lease: Lease | None = None
    array_id: int | None = None
    array_task: int | None = None  # set once the task has a record of its own
    array_tasks: tuple[int, ...] = ()  # indices that still wait in this record, in order
    array_limit: int | None = None  # %N of --array
    het: bool = False
    requeue: bool = False
    restarts: int = 0
    nice: int = 0
    batch: int | None = (
        None  # one more than the starts that Slurm holds against its script; 0: no script; None: not told
    )
    completing: bool = False  # its run is over, and its nodes are not yet done with it
    cut: bool = False  # over, and not as it or its time limit had it: cancelled, failed, preempted, lost with its node
    suspended: bool = False
    since: int | None = None  # of a job that we requeued: Slurm's own submit time; `submit` is that of its first run
    nodes: tuple[str, ...] = ()  # running
    gpus: tuple[tuple[int, ...], ...] = ()  # running: device indices per node
    parts: tuple[tuple[int, ...], ...] = ()  # the same of devices that it may share with others; none: no such job
    cpus_alloc: int = 0
    ntasks: int = 1
    exclusive: bool = False  # --exclusive, or a whole-node partition
    limited: bool = False  # by what its user, account or QOS may have: it waits for a job of theirs
    slurms: bool = False  # nobody but Slurm can tell where it may start: we let it go at once
    name: str = ""  # as the user named it: only ever held against patterns
    command: str = ""  # the batch script and its arguments: the same

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Slurm's own."""
        return (-self.tier, -self.priority, self.submit, self.id)

    @property
    def key(self) -> JobRef:
        """Of the whole record."""
        return JobRef(self.id, self.submit)

    def said_alike(self, other: Job) -> bool:
        """Whether nobody has edited it between two looks: what Slurm itself changes does not count."""
        began = self.eligible == other.eligible or None in (self.eligible, other.eligible)  # none: a dependency
        return began and self._said == other._said

    @property
    def _said(self) -> tuple[object, ...]:
        return (
            self.request, self.required_nodes, self.excluded_nodes, self.features, self.reservation, self.time_limit_s,
        )  # fmt: skip

    @property
    def pending(self) -> bool:
        return self.state is JobState.PENDING

    @property
    def holds(self) -> tuple[tuple[int, ...], ...]:
        """Devices per node that no other job may have whole while it runs."""
        return self.parts or self.gpus

    def is_leased(self, now: float) -> bool:
        """Ours to place: it bears our mark, and its begin time is still to come, or its dependency is unmet."""
        return self.lease is not None and self.pending and (self.eligible is None or self.eligible > now)

    def own_begin(self, now: float) -> int | None:
        """Its user's own begin time, where that is still to come."""
        begin = self.lease.not_before if self.lease else None
        return begin if begin is not None and begin > now else None

    def waits_for_us(self, now: float) -> bool:
        """Leased, and not just for its user's own begin time: without us it would start sooner."""
        return self.is_leased(now) and (self.own_begin(now) is None or self.eligible not in (None, self.own_begin(now)))

    @property
    def shares(self) -> bool:
        """Its user said at submission, and says still, that it may have its GPU together with another; and it can."""
        said = self.hint.share and not self.hint.off and self.lease is not None and self.lease.asked_to_share
        alone = self.exclusive or self.het or self.reservation or self.array_limit is not None
        return said and self.by_part and not (alone or self.gpus_limited)

    @property
    def yields(self) -> bool:
        """Where it does not fit for all its limit, Slurm's backfill looks for room for a shorter one."""
        return self.least_limit_s is not None and (self.time_limit_s is None or self.least_limit_s < self.time_limit_s)

    @property
    def prefers(self) -> str:
        """Features that its user would rather have: Slurm looks there first, and never waits for them."""
        return self.lease.prefer if self.lease is not None else ""

    def task_let_go(self, now: float) -> bool:
        """One that its array's %N counts as soon as Slurm looks: its begin time has come, and nobody holds it.

        The last task that waits keeps the array's own record.
        """
        return len(self.array_tasks) <= 1 and 0 < (self.eligible or 0) <= now and self.why is not Waits.HELD

    @property
    def pin(self) -> Pinned | None:
        """A node list on a job with our mark, unless the mark says that its user brought it along."""
        if self.lease is None or self.lease.own_nodes or not self.required_nodes:
            return None
        return Pinned(expand_hosts(self.required_nodes) or frozenset(), self.slots)

    def on_number(self, nodes: int) -> bool:
        """Whether it can have no other number of nodes. A slurmctld that was restarted has forgotten the most."""
        return self.request.min_nodes == nodes and self.request.max_nodes in (0, nodes)

    def asks_for(self, nodes: Sequence[str], slots: Sequence[int], *, shard: bool = False) -> bool:
        """Nodes and slots both: Slurm's updates are not atomic, one without the other is a torn edit."""
        if slots and shard is not self.shard:
            return False
        return expand_hosts(self.required_nodes) == frozenset(nodes) and set(slots) <= set(self.slots)
