"""Pins that ask for a part of a GPU."""

import sqlalchemy as sa

from pal_slurm.store.migrations.steps import add_column

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("steps", sa.Column("shard", sa.Boolean(), nullable=True))
