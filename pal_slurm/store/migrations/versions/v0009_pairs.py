"""Who had parts of GPUs, and what each user's jobs showed of two on the same one."""

import sqlalchemy as sa
from alembic import op

from pal_slurm.store.migrations.steps import add_column, create_index, create_table

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("job_outcomes", sa.Column("shared", sa.Boolean(), nullable=True))
    create_index("ix_job_outcomes_cluster_shared", "job_outcomes", ["cluster", "shared"])
    create_table(
        "user_pairs",
        sa.Column("app", sa.String(length=64), nullable=False),
        sa.Column("beside", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("gpus", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user", sa.String(length=64), nullable=False),
        sa.Column("mean", sa.Double(), nullable=False),
        sa.Column("var", sa.Double(), nullable=False),
        sa.Column("seen", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("app", "beside", "model", "gpus", "user", name=op.f("pk_user_pairs")),
    )
