"""Of which array a task was: its user knows it by that, and its decisions are kept under it."""

import sqlalchemy as sa

from pal_slurm.store.migrations.steps import add_column, create_index

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("job_outcomes", sa.Column("array_id", sa.BigInteger(), nullable=True))
    create_index("ix_job_outcomes_cluster_array_id", "job_outcomes", ["cluster", "array_id"])
