"""The tables. In: nothing. Out: SQLAlchemy metadata that repositories query and migrations arrive at.

Times are epoch seconds; a GPU is its UUID, in large tables an integer `id`. JSON text is what no query looks into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem

from pal_slurm.model import Decision, EditKind, Request
from pal_slurm.store.rows import Json

HEAD = "0011"  # the newest migration; a test holds it against Alembic's own answer

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
_LongText = Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")  # there Text is 64 KB
Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself for INTEGER only


def new_table(name: str, *parts: SchemaItem, **more: Any) -> Table:
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
    Column("uuid", String(96), nullable=False, unique=True),
    Column("model", String(64), nullable=False),
    Column("serial", String(64)),  # as printed on the card; null: nobody told
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
)
gpu_slots = new_table(
    "gpu_slots",
    Column("id", Id, primary_key=True),
    Column("gpu_id", Id, ForeignKey("gpus.id"), nullable=False),
    Column("node", String(255), nullable=False),
    Column("slot", Integer, nullable=False),
    Column("since", Double, nullable=False),
    Column("until", Double),  # null: it is there now
    Index(None, "gpu_id"),
    Index(None, "node", "slot"),
)
runs = new_table(
    "runs",
    Column("id", Id, primary_key=True),
    Column("gpu_id", Id, ForeignKey("gpus.id"), nullable=False),
    Column("class", String(32), key="cls", nullable=False),
    Column("app", String(64)),  # the application or kernel that ran, where it was one
    Column("seconds", Double),  # as measured; either this or the score is set
    Column("score", Double),  # as told by whoever judged it
    Column("night", Integer, nullable=False),  # days since 1970-01-01 UTC
    Column("measured_at", Double, nullable=False),
    Column("source", String(32), nullable=False),  # import, probe, job ...
    Column("document", String(64), nullable=False),  # SHA-256 of what it came in: coming twice, it counts once
    Column("seq", Integer, nullable=False),  # its number in that document
    Column("driver", String(64)),
    Column("power_cap_w", Double),
    Column("node", String(255)),  # where it sat when it ran
    Column("scope", String(8)),  # node: while all GPUs of its node did the same; null or gpu: alone
    UniqueConstraint("document", "seq"),
    Index(None, "gpu_id", "cls", "night"),
    Index(None, "night"),
)
scores = new_table(
    "scores",
    Column("gpu_id", Id, ForeignKey("gpus.id"), primary_key=True),
    Column("class", String(32), key="cls", primary_key=True),
    Column("score", Double, nullable=False),
    Column("n_runs", Integer, nullable=False),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("measured_at", Double, nullable=False),
    Column("source", String(32), nullable=False),
    Column("nights", Integer),  # that count
    Column("since", Integer),  # the first of them
    Column("stalls", Integer),
    Column("node_stalls", Integer),
    Column("node_part", Double),  # the factor that all GPUs of its node share
    Column("intermittent", Boolean),
    Column("profiled", Double),  # the score by the nights alone, before jobs were heard
    Column("profiled_error", Double),  # standard error of its logarithm
    Column("profiled_at", Double),
    Column("jobs", Integer),  # observations of jobs since then
    Column("asked", Double),  # what one user's jobs say and nobody else has seen: it waits for a witness
)
nights = new_table(
    "nights",
    Column("gpu_id", Id, ForeignKey("gpus.id"), primary_key=True),
    Column("class", String(32), key="cls", primary_key=True),
    Column("app", String(64), primary_key=True),
    Column("scope", String(8), primary_key=True),
    Column("night", Integer, primary_key=True, autoincrement=False),
    Column("seconds", Double, nullable=False),  # typical, without stalls
    Column("stalled", Double, nullable=False),  # mean of the stalls
    Column("spread", Double, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("stalls", Integer, nullable=False),
    Column("node_stalls", Integer, nullable=False),
    Column("measured_at", Double, nullable=False),
    Column("node", String(255), nullable=False),
    Column("setup", String(96), nullable=False),  # driver and power cap, as text
    Column("score", Double),  # that night's own, by the level of the night
    Index(None, "night"),
)
alerts = new_table(
    "alerts",
    Column("id", Id, primary_key=True),
    Column("key", String(191), nullable=False, unique=True),  # what, where and when: told once
    Column("kind", String(32), nullable=False),
    Column("said", Text, nullable=False),
    Column("raised_at", Double, nullable=False),
)
job_samples = new_table(
    "job_samples",
    Column("id", Id, primary_key=True),
    Column("document", String(64), nullable=False, unique=True),
    Column("cluster", String(64), nullable=False),
    Column("job", String(24), nullable=False),  # as Slurm prints it: 7 or 7_3
    Column("user", String(64)),  # whose job it was, by Slurm or the kernel; null or empty: nobody knows
    Column("app", String(64)),
    Column("node", String(255), nullable=False),
    Column("gpus", Json(tuple[str, ...]), nullable=False),  # UUIDs: those of this node
    Column("begun_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("step_seconds", Double),  # null: the job reports no steps
    Column("compute", Double),  # utilisation, 0 to 1
    Column("memory", Double),
    Column("heard", Boolean, nullable=False),  # scores have learned from it, or can't
    Index(None, "app", "ended_at"),
    Index(None, "cluster", "job"),
    Index(None, "heard", "ended_at"),
)
app_features = new_table(
    "app_features",
    Column("app", String(64), primary_key=True),
    Column("compute", Double),
    Column("memory", Double),
    Column("compute_error", Double),
    Column("memory_error", Double),
    Column("jobs", Integer, nullable=False),
    Column("base", Json(dict[str, Baseline]), nullable=False),  # by shape: model|GPUs|nodes, as jobs showed
    Column("noise", Double),  # scatter of log step times between jobs of this application
    Column("sure", Double),  # probability that it belongs to its class rather than to the next best
    Column("seen_at", Double, nullable=False),
)
user_apps = new_table(
    "user_apps",
    Column("app", String(64), primary_key=True),
    Column("user", String(64), primary_key=True),
    Column("base", Json(dict[str, Baseline]), nullable=False),  # as in app_features, by this user's jobs alone
    Column("noise", Double),
    Column("seen_at", Double, nullable=False),
)
apps = new_table(
    "apps",
    Column("name", String(64), primary_key=True),
    Column("class", String(32), key="cls", nullable=False),
    Column("base", Json(dict[str, float]), nullable=False),  # model -> seconds per step
    Column("comm", Json(tuple[float, float, float, float]), nullable=False),  # a factor per tier
    Column("source", String(32), nullable=False),
    Column("set_at", Double, nullable=False),
)
operations = new_table(
    "operations",
    Column("id", Id, primary_key=True),
    Column("cluster", String(64), nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("submit", BigInteger, nullable=False),
    Column("task", Integer),
    Column("kind", String(16), nullable=False),
    Column("plan", Json(tuple[EditKind, ...]), nullable=False),  # what each of its steps does, in order
    Column("step", Integer, nullable=False),  # that it is at; -1: it was refused before its first
    Column("said", Text, nullable=False),  # why it was refused, or begun
    Column("begun_at", Double, nullable=False),
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
    Column("number", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("nodes", Json(tuple[str, ...]), nullable=False),
    Column("slots", Json(tuple[int, ...])),  # null: node precision
    Column("until", BigInteger),
    Column("partition", String(255)),
    Column("original", Json(Request)),  # to restore
    Column("fence", BigInteger, nullable=False),
    Column("written_at", Double, nullable=False),
    Column("outcome", String(16)),  # null: open
    Column("said", Text, nullable=False),
    Column("outcome_at", Double),
    Column("passes_main", BigInteger, nullable=False),
    Column("passes_backfill", BigInteger, nullable=False),
    Column("nice", BigInteger),
    Column("signal", String(8)),
    Column("shard", Boolean),  # a pin that asks for a part of its GPU
    Column("own", Boolean),  # `until` is no lease's end: its user's own begin time
    UniqueConstraint("operation", "number"),
    sqlite_autoincrement=True,
)
memory = new_table(
    "memory",
    Column("cluster", String(64), primary_key=True),
    Column("fence", BigInteger, nullable=False),
    Column("value", _LongText, nullable=False),  # JSON, of a version of its own: what the policy remembers
    Column("written_at", Double, nullable=False),
)
decisions = new_table(
    "decisions",
    Column("cluster", String(64), primary_key=True),
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("submit", BigInteger, primary_key=True, autoincrement=False),
    Column("task", Integer, primary_key=True, autoincrement=False),  # -1: the whole record
    Column("decided_at", Double, nullable=False),
    Column("action", String(16), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("why", Text, nullable=False),  # JSON: what was known and weighed
    Index(None, "cluster", "decided_at"),
)
leader = new_table(
    "leader",
    Column("cluster", String(64), primary_key=True),
    Column("owner", String(255), nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("expires", Double, nullable=False),
)
outcomes = new_table(
    "job_outcomes",
    Column("cluster", String(64), primary_key=True),
    Column("job", BigInteger, primary_key=True, autoincrement=False),
    Column("submit", BigInteger, primary_key=True, autoincrement=False),
    Column("task", Integer, primary_key=True, autoincrement=False),  # -1: no array task
    Column("start", BigInteger, primary_key=True, autoincrement=False),  # a requeued job starts more than once
    Column("end", BigInteger),
    Column("user", String(64)),  # null: an older pald did not write it down
    Column("app", String(64)),
    Column("class", String(32), key="cls", nullable=False),
    Column("nodes", Json(tuple[str, ...]), nullable=False),  # what it really got
    Column("gpus", Json(tuple[tuple[int, ...], ...]), nullable=False),  # per node
    Column("as_pinned", Boolean),  # null: it was not pinned
    Column("step_time", Double),  # predicted for what it got
    Column("slurm_step_time", Double),  # predicted for what Slurm itself would have chosen
    Column("limit_s", Integer),  # of time; null: none, or an older pald did not write it down
    Column("named", String(16)),  # a digest of its name: jobs that are repeated have the same; null: as before
    Column("shared", Boolean),  # it had parts of its GPUs; null: an older pald did not write it down
    Column("array_id", BigInteger),  # of a task that has a job id of its own; null: no task, or as before
    Index(None, "cluster", "start"),
    Index(None, "cluster", "shared"),
    Index(None, "cluster", "array_id"),
)
state = new_table(
    "state",
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    Column("written_at", Double, nullable=False),
)
