"""Which jobs did not run to their end: they do not tell how long jobs like them run."""

import sqlalchemy as sa

from pal_slurm.store.migrations.steps import add_column

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("job_outcomes", sa.Column("cut", sa.Boolean(), nullable=True))
