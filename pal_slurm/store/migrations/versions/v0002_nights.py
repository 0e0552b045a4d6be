"""Nights per GPU, what scores rest on, alerts, what jobs showed, features of applications."""

import sqlalchemy as sa
from alembic import op

from pal_slurm.store.migrations.steps import ID, add_column, create_index, create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("runs", sa.Column("node", sa.String(length=255), nullable=True))
    add_column("runs", sa.Column("scope", sa.String(length=8), nullable=True))
    create_index("ix_runs_night", "runs", ["night"])
    for name, kind in (
        ("nights", sa.Integer()),
        ("since", sa.Integer()),
        ("stalls", sa.Integer()),
        ("node_stalls", sa.Integer()),
        ("node_part", sa.Double()),
        ("intermittent", sa.Boolean()),
        ("profiled", sa.Double()),
        ("profiled_error", sa.Double()),
        ("profiled_at", sa.Double()),
        ("jobs", sa.Integer()),
    ):
        add_column("scores", sa.Column(name, kind, nullable=True))
    create_table(
        "nights",
        sa.Column("gpu_id", ID, nullable=False),
        sa.Column("class", sa.String(length=32), nullable=False),
        sa.Column("app", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("night", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("stalled", sa.Double(), nullable=False),
        sa.Column("spread", sa.Double(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("stalls", sa.Integer(), nullable=False),
        sa.Column("node_stalls", sa.Integer(), nullable=False),
        sa.Column("measured_at", sa.Double(), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("setup", sa.String(length=96), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name=op.f("fk_nights_gpu_id")),
        sa.PrimaryKeyConstraint("gpu_id", "class", "app", "scope", "night", name=op.f("pk_nights")),
    )
    create_index("ix_nights_night", "nights", ["night"])
    create_table(
        "alerts",
        sa.Column("id", ID, nullable=False),
        sa.Column("key", sa.String(length=191), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("raised_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("key", name=op.f("uq_alerts_key")),
    )
    create_table(
        "job_samples",
        sa.Column("id", ID, nullable=False),
        sa.Column("document", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("job", sa.String(length=24), nullable=False),
        sa.Column("app", sa.String(length=64), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("gpus", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("step_seconds", sa.Double(), nullable=True),
        sa.Column("compute", sa.Double(), nullable=True),
        sa.Column("memory", sa.Double(), nullable=True),
        sa.Column("heard", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_samples")),
        sa.UniqueConstraint("document", name=op.f("uq_job_samples_document")),
    )
    create_index("ix_job_samples_app_ended_at", "job_samples", ["app", "ended_at"])
    create_index("ix_job_samples_cluster_job", "job_samples", ["cluster", "job"])
    create_index("ix_job_samples_heard_ended_at", "job_samples", ["heard", "ended_at"])
    create_table(
        "app_features",
        sa.Column("app", sa.String(length=64), nullable=False),
        sa.Column("compute", sa.Double(), nullable=True),
        sa.Column("memory", sa.Double(), nullable=True),
        sa.Column("compute_error", sa.Double(), nullable=True),
        sa.Column("memory_error", sa.Double(), nullable=True),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("noise", sa.Double(), nullable=True),
        sa.Column("sure", sa.Double(), nullable=True),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("app", name=op.f("pk_app_features")),
    )
