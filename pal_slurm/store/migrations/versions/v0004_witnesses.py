"""Who said what: users of jobs and samples, what each user's jobs say of a GPU, scores that wait for a witness."""

import sqlalchemy as sa
from alembic import op

from pal_slurm.store.migrations.steps import ID, add_column, create_table

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("job_samples", sa.Column("user", sa.String(length=64), nullable=True))
    add_column("job_outcomes", sa.Column("user", sa.String(length=64), nullable=True))
    add_column("scores", sa.Column("asked", sa.Double(), nullable=True))
    create_table(
        "votes",
        sa.Column("gpu_id", ID, nullable=False),
        sa.Column("class", sa.String(length=32), nullable=False),
        sa.Column("user", sa.String(length=64), nullable=False),
        sa.Column("mean", sa.Double(), nullable=False),
        sa.Column("var", sa.Double(), nullable=False),
        sa.Column("heard_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name=op.f("fk_votes_gpu_id")),
        sa.PrimaryKeyConstraint("gpu_id", "class", "user", name=op.f("pk_votes")),
    )
    create_table(
        "user_apps",
        sa.Column("app", sa.String(length=64), nullable=False),
        sa.Column("user", sa.String(length=64), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("noise", sa.Double(), nullable=True),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("app", "user", name=op.f("pk_user_apps")),
    )
