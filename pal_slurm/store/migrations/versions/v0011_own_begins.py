"""Begin times that users wrote: where they are written back with an edit they are no end of a lease of ours."""

import sqlalchemy as sa

from pal_slurm.store.migrations.steps import add_column

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("steps", sa.Column("own", sa.Boolean(), nullable=True))
