"""Operations and their steps instead of single intents, each of which becomes an operation of one step; memory."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from pal_slurm.store.migrations.steps import ID, create_index, create_table

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

SAME = (
    "kind", "nodes", "slots", "until", "partition", "original", "fence", "written_at", "outcome", "said", "outcome_at",
    "passes_main", "passes_backfill",
)  # fmt: skip
REST = ("id", "cluster", "job", "submit", "task", "decision", "closed")
OLD = sa.table("intents", *map(sa.column, (*REST, *SAME)))
KINDS = {"pin": "start", "plain": "start", "unpin": "give-back"}


def upgrade() -> None:
    create_table(
        "operations",
        sa.Column("id", ID, nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.Column("submit", sa.BigInteger(), nullable=False),
        sa.Column("task", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.Double(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
        sqlite_autoincrement=True,
    )
    create_index("ix_operations_cluster_closed", "operations", ["cluster", "closed"])
    create_index("ix_operations_cluster_job_submit", "operations", ["cluster", "job", "submit"])
    create_table(
        "steps",
        sa.Column("id", ID, nullable=False),
        sa.Column("operation", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("slots", sa.Text(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("partition", sa.String(length=255), nullable=True),
        sa.Column("original", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("outcome_at", sa.Double(), nullable=True),
        sa.Column("passes_main", sa.BigInteger(), nullable=False),
        sa.Column("passes_backfill", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["operation"], ["operations.id"], name=op.f("fk_steps_operation"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_steps")),
        sa.UniqueConstraint("operation", "number", name=op.f("uq_steps_operation_number")),
        sqlite_autoincrement=True,
    )
    create_table(
        "memory",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_memory")),
    )
    if sa.inspect(op.get_bind()).has_table("intents"):
        _copy()
        op.drop_table("intents")


def _copy() -> None:
    """Row by row, ids and all; what was copied by a migration that was cut short is left as it is."""
    old, plan = OLD.c, sa.literal('["') + sa.cast(OLD.c.kind, sa.String(16)) + sa.literal('"]')
    operation = {
        "id": old.id, "cluster": old.cluster, "job": old.job, "submit": old.submit, "task": old.task,
        "kind": sa.case(KINDS, value=old.kind, else_=old.kind), "plan": plan, "step": sa.literal(0),
        "said": sa.literal(""), "begun_at": old.written_at, "decision": old.decision, "closed": old.closed,
    }  # fmt: skip
    step = {"id": old.id, "operation": old.id, "number": sa.literal(0)} | {name: old[name] for name in SAME}
    _into("operations", operation)
    _into("steps", step)


def _into(name: str, values: Mapping[str, sa.ColumnElement[Any]]) -> None:
    table = sa.table(name, *map(sa.column, values))
    new = sa.select(*(value.label(key) for key, value in values.items())).where(OLD.c.id.not_in(sa.select(table.c.id)))
    op.execute(sa.insert(table).from_select(list(values), new))
    if op.get_bind().dialect.name == "postgresql":  # numbers that were given by hand don't count there
        newest = sa.select(sa.func.max(table.c.id)).scalar_subquery()
        op.execute(sa.select(sa.func.setval(sa.func.pg_get_serial_sequence(name, "id"), newest)))
