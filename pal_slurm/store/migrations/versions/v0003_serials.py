"""The serial number that is printed on a card, as its driver tells it."""

import sqlalchemy as sa

from pal_slurm.store.migrations.steps import add_column

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("gpus", sa.Column("serial", sa.String(length=64), nullable=True))
