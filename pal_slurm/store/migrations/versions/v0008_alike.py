"""Which runs were of jobs that are alike: their limit, and a digest of their name."""

import sqlalchemy as sa

from pal_slurm.store.migrations.steps import add_column

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("job_outcomes", sa.Column("limit_s", sa.Integer(), nullable=True))
    add_column("job_outcomes", sa.Column("named", sa.String(length=16), nullable=True))
