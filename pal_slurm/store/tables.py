"""The tables. In: nothing. Out: SQLAlchemy metadata that repositories query and migrations arrive at.

Times are epoch seconds; a GPU is its UUID, in large tables an integer `id`. JSON text is what no query looks into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Column, ForeignKey, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.schema import SchemaItem

from pal_slurm.model import Decision, EditKind, OperationKind, Outcome, Request
from pal_slurm.store.fields import ID, Json, Prose, Real, WholeNumber, Word, Words, placed

HEAD = "0013"  # the newest migration; a test holds it against Alembic's own answer

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
# MariaDB takes "Bert" for "bert" by default; names of nodes, cards and applications are not to be mixed up
_EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
MOST_SAID = 1000  # characters of why something was done or refused
Id = ID


def new_table(name: str, *parts: SchemaItem, **more: Any) -> Table:
    for part in parts:
        if isinstance(part, Column):
            placed(name, part)
    return Table(name, metadata, *parts, **_EXACT, **more)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Log seconds per step of an application in one shape on median GPUs, as its jobs show it."""

    mean: float
    var: float
    jobs: int


gpus = new_table(
    "gpus",
    Column("id", Id, primary_key=True),
    Column("uuid", Words(96), nullable=False, unique=True),
    Column("model", Words(64), nullable=False),
    Column("serial", Words(64)),  # as printed on the card; null: nobody told
    Column("first_seen", Real(), nullable=False),
    Column("last_seen", Real(), nullable=False),
)
gpu_slots = new_table(
    "gpu_slots",
    Column("id", Id, primary_key=True),
    Column("gpu_id", Id, ForeignKey("gpus.id"), nullable=False),
    Column("node", Words(255), nullable=False),
    Column("slot", WholeNumber(small=True), nullable=False),
    Column("since", Real(), nullable=False),
    Column("until", Real()),  # null: it is there now
    Index(None, "gpu_id"),
    Index(None, "node", "slot"),
)
runs = new_table(
    "runs",
    Column("id", Id, primary_key=True),
    Column("gpu_id", Id, ForeignKey("gpus.id"), nullable=False),
    Column("class", Words(32), key="cls", nullable=False),
    Column("app", Words(64)),  # the application or kernel that ran, where it was one
    Column("seconds", Real()),  # as measured; either this or the score is set
    Column("score", Real()),  # as told by whoever judged it
    Column("night", WholeNumber(small=True), nullable=False),  # days since 1970-01-01 UTC
    Column("measured_at", Real(), nullable=False),
    Column("source", Words(32), nullable=False),  # import, probe, job ...
    Column("document", Words(64), nullable=False),  # SHA-256 of what it came in: coming twice, it counts once
    Column("seq", WholeNumber(small=True), nullable=False),  # its number in that document
    Column("driver", Words(64)),
    Column("power_cap_w", Real()),
    Column("node", Words(255)),  # where it sat when it ran
    Column("scope", Words(8)),  # node: while all GPUs of its node did the same; null or gpu: alone
    UniqueConstraint("document", "seq"),
    Index(None, "gpu_id", "cls", "night"),
    Index(None, "night"),
)
scores = new_table(
    "scores",
    Column("gpu_id", Id, ForeignKey("gpus.id"), primary_key=True),
    Column("class", Words(32), key="cls", primary_key=True),
    Column("score", Real(), nullable=False),
    Column("n_runs", WholeNumber(small=True), nullable=False),
    Column("ci_low", Real()),
    Column("ci_high", Real()),
    Column("measured_at", Real(), nullable=False),
    Column("source", Words(32), nullable=False),
    Column("nights", WholeNumber(small=True)),  # that count
    Column("since", WholeNumber(small=True)),  # the first of them
    Column("stalls", WholeNumber(small=True)),
    Column("node_stalls", WholeNumber(small=True)),
    Column("node_part", Real()),  # the factor that all GPUs of its node share
    Column("intermittent", Boolean),
    Column("profiled", Real()),  # the score by the nights alone, before jobs were heard
    Column("profiled_error", Real()),  # standard error of its logarithm
    Column("profiled_at", Real()),
    Column("jobs", WholeNumber(small=True)),  # observations of jobs since then
    Column("asked", Real()),  # what one user's jobs say and nobody else has seen: it waits for a witness
)
nights = new_table(
    "nights",
    Column("gpu_id", Id, ForeignKey("gpus.id"), primary_key=True),
    Column("class", Words(32), key="cls", primary_key=True),
    Column("app", Words(64), primary_key=True),
    Column("scope", Words(8), primary_key=True),
    Column("night", WholeNumber(small=True), primary_key=True, autoincrement=False),
    Column("seconds", Real(), nullable=False),  # typical, without stalls
    Column("stalled", Real(), nullable=False),  # mean of the stalls
    Column("spread", Real(), nullable=False),
    Column("runs", WholeNumber(small=True), nullable=False),
    Column("stalls", WholeNumber(small=True), nullable=False),
    Column("node_stalls", WholeNumber(small=True), nullable=False),
    Column("measured_at", Real(), nullable=False),
    Column("node", Words(255), nullable=False),
    Column("setup", Words(96), nullable=False),  # driver and power cap, as text
    Column("score", Real()),  # that night's own, by the level of the night
    Index(None, "night"),
)
alerts = new_table(
    "alerts",
    Column("id", Id, primary_key=True),
    Column("key", Words(191), nullable=False, unique=True),  # what, where and when: told once
    Column("kind", Words(32), nullable=False),
    Column("said", Prose(MOST_SAID), nullable=False),
    Column("raised_at", Real(), nullable=False),
)
job_samples = new_table(
    "job_samples",
    Column("id", Id, primary_key=True),
    Column("document", Words(64), nullable=False, unique=True),
    Column("cluster", Words(64), nullable=False),
    Column("job", Words(24), nullable=False),  # as Slurm prints it: 7 or 7_3
    Column("user", Words(64)),  # whose job it was, by Slurm or the kernel; null or empty: nobody knows
    Column("app", Words(64)),
    Column("node", Words(255), nullable=False),
    Column("gpus", Json(tuple[str, ...]), nullable=False),  # UUIDs: those of this node
    Column("begun_at", Real(), nullable=False),
    Column("ended_at", Real(), nullable=False),
    Column("steps", WholeNumber(small=True), nullable=False),
    Column("step_seconds", Real()),  # null: the job reports no steps
    Column("compute", Real()),  # utilisation, 0 to 1
    Column("memory", Real()),
    Column("heard", Boolean, nullable=False),  # scores have learned from it, or can't
    Index(None, "app", "ended_at"),
    Index(None, "cluster", "job"),
    Index(None, "heard", "ended_at"),
)
app_features = new_table(
    "app_features",
    Column("app", Words(64), primary_key=True),
    Column("compute", Real()),
    Column("memory", Real()),
    Column("compute_error", Real()),
    Column("memory_error", Real()),
    Column("jobs", WholeNumber(small=True), nullable=False),
    Column("base", Json(dict[str, Baseline]), nullable=False),  # by shape: model|GPUs|nodes, as jobs showed
    Column("noise", Real()),  # scatter of log step times between jobs of this application
    Column("sure", Real()),  # probability that it belongs to its class rather than to the next best
    Column("seen_at", Real(), nullable=False),
)
user_apps = new_table(
    "user_apps",
    Column("app", Words(64), primary_key=True),
    Column("user", Words(64), primary_key=True),
    Column("base", Json(dict[str, Baseline]), nullable=False),  # as in app_features, by this user's jobs alone
    Column("noise", Real()),
    Column("seen_at", Real(), nullable=False),
)
apps = new_table(
    "apps",
    Column("name", Words(64), primary_key=True),
    Column("class", Words(32), key="cls", nullable=False),
    Column("base", Json(dict[str, float]), nullable=False),  # model -> seconds per step
    Column("comm", Json(tuple[float, float, float, float]), nullable=False),  # a factor per tier
    Column("source", Words(32), nullable=False),
    Column("set_at", Real(), nullable=False),
)
operations = new_table(
    "operations",
    Column("id", Id, primary_key=True),
    Column("cluster", Words(64), nullable=False),
    Column("job", WholeNumber(), nullable=False),
    Column("submit", WholeNumber(), nullable=False),
    Column("task", WholeNumber(small=True)),
    Column("kind", Word(OperationKind, 16), nullable=False),
    Column("plan", Json(tuple[EditKind, ...]), nullable=False),  # what each of its steps does, in order
    Column("step", WholeNumber(small=True), nullable=False),  # that it is at; -1: it was refused before its first
    Column("said", Prose(MOST_SAID), nullable=False),  # why it was refused, or begun
    Column("begun_at", Real(), nullable=False),
    Column("decision", Json(Decision)),
    Column("closed", Boolean, nullable=False),
    Index(None, "cluster", "job", "submit"),
    Index(None, "cluster", "closed"),
    sqlite_autoincrement=True,  # an id never comes round again, also after old rows are pruned
)
steps = new_table(
    "steps",
    Column("id", Id, primary_key=True),
    Column("operation", Id, ForeignKey("operations.id", ondelete="CASCADE"), nullable=False),
    Column("number", WholeNumber(small=True), nullable=False),
    Column("kind", Word(EditKind, 16), nullable=False),
    Column("nodes", Json(tuple[str, ...]), nullable=False),
    Column("slots", Json(tuple[int, ...])),  # null: node precision
    Column("until", WholeNumber()),
    Column("partition", Words(255)),
    Column("original", Json(Request)),  # to restore
    Column("fence", WholeNumber(), nullable=False),
    Column("written_at", Real(), nullable=False),
    Column("outcome", Word(Outcome, 16)),  # null: open
    Column("said", Prose(MOST_SAID), nullable=False),
    Column("outcome_at", Real()),
    Column("passes_main", WholeNumber(), nullable=False),
    Column("passes_backfill", WholeNumber(), nullable=False),
    Column("nice", WholeNumber()),
    Column("signal", Words(8)),
    Column("shard", Boolean),  # a pin that asks for a part of its GPU
    Column("own", Boolean),  # `until` is no lease's end: its user's own begin time
    UniqueConstraint("operation", "number"),
    sqlite_autoincrement=True,
)
memory = new_table(
    "memory",
    Column("cluster", Words(64), primary_key=True),
    Column("fence", WholeNumber(), nullable=False),
    Column("value", Prose(cut=False), nullable=False),  # JSON, of a version of its own: what the policy remembers
    Column("written_at", Real(), nullable=False),
)
decisions = new_table(
    "decisions",
    Column("cluster", Words(64), primary_key=True),
    Column("job", WholeNumber(), primary_key=True, autoincrement=False),
    Column("submit", WholeNumber(), primary_key=True, autoincrement=False),
    Column("task", WholeNumber(small=True), primary_key=True, autoincrement=False),  # -1: the whole record
    Column("decided_at", Real(), nullable=False),
    Column("action", Words(16), nullable=False),
    Column("reason", Words(32), nullable=False),
    Column("why", Prose(cut=False), nullable=False),  # JSON: what was known and weighed
    Index(None, "cluster", "decided_at"),
)
leader = new_table(
    "leader",
    Column("cluster", Words(64), primary_key=True),
    Column("owner", Words(255), nullable=False),
    Column("fence", WholeNumber(), nullable=False),
    Column("expires", Real(), nullable=False),
)
outcomes = new_table(
    "job_outcomes",
    Column("cluster", Words(64), primary_key=True),
    Column("job", WholeNumber(), primary_key=True, autoincrement=False),
    Column("submit", WholeNumber(), primary_key=True, autoincrement=False),
    Column("task", WholeNumber(small=True), primary_key=True, autoincrement=False),  # -1: no array task
    Column("start", WholeNumber(), primary_key=True, autoincrement=False),  # a requeued job starts more than once
    Column("end", WholeNumber()),
    Column("user", Words(64)),  # null: an older pald did not write it down
    Column("app", Words(64)),
    Column("class", Words(32), key="cls", nullable=False),
    Column("nodes", Json(tuple[str, ...]), nullable=False),  # what it really got
    Column("gpus", Json(tuple[tuple[int, ...], ...]), nullable=False),  # per node
    Column("as_pinned", Boolean),  # null: it was not pinned
    Column("step_time", Real()),  # predicted for what it got
    Column("slurm_step_time", Real()),  # predicted for what Slurm itself would have chosen
    Column("limit_s", WholeNumber(small=True)),  # of time; null: none, or an older pald did not write it down
    Column("named", Words(16)),  # a digest of its name: jobs that are repeated have the same; null: as before
    Column("shared", Boolean),  # it had parts of its GPUs; null: an older pald did not write it down
    Column("array_id", WholeNumber()),  # of a task that has a job id of its own; null: no task, or as before
    Column("cut", Boolean),  # it did not run to its end; null: as before
    Index(None, "cluster", "start"),
    Index(None, "cluster", "shared"),
    Index(None, "cluster", "array_id"),
)
state = new_table(
    "state",
    Column("key", Words(64), primary_key=True),
    Column("value", Prose(), nullable=False),
    Column("written_at", Real(), nullable=False),
)
