"""Moves of running jobs, and what their steps set beside the rest: a nice, a signal."""

import sqlalchemy as sa
from alembic import op

from pal_slurm.store.migrations.steps import ID, add_column, create_index, create_table

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("steps", sa.Column("nice", sa.BigInteger(), nullable=True))
    add_column("steps", sa.Column("signal", sa.String(length=8), nullable=True))
    create_table(
        "moves",
        sa.Column("operation", ID, autoincrement=False, nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.String(length=64), nullable=False),
        sa.Column("app", sa.String(length=64), nullable=True),
        sa.Column("began_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("ending", sa.String(length=16), nullable=True),
        sa.Column("move", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["operation"], ["operations.id"], name=op.f("fk_moves_operation"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("operation", name=op.f("pk_moves")),
    )
    create_index("ix_moves_cluster_began_at", "moves", ["cluster", "began_at"])
    create_index("ix_moves_cluster_ended_at", "moves", ["cluster", "ended_at"])
