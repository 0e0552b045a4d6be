"""The first schema: GPUs and where they sit, runs and scores, applications, the ledger, leadership, outcomes."""

import sqlalchemy as sa
from alembic import op

from pal_slurm.store.migrations.steps import ID, create_index, create_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "apps",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("class", sa.String(length=32), nullable=False),
        sa.Column("base", sa.Text(), nullable=False),
        sa.Column("comm", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("set_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_apps")),
    )
    create_table(
        "decisions",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("job", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("submit", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("decided_at", sa.Double(), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "job", "submit", "task", name=op.f("pk_decisions")),
    )
    create_index("ix_decisions_cluster_decided_at", "decisions", ["cluster", "decided_at"])
    create_table(
        "gpus",
        sa.Column("id", ID, nullable=False),
        sa.Column("uuid", sa.String(length=96), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("first_seen", sa.Double(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpus")),
        sa.UniqueConstraint("uuid", name=op.f("uq_gpus_uuid")),
    )
    create_table(
        "intents",
        sa.Column("id", ID, nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("job", sa.BigInteger(), nullable=False),
        sa.Column("submit", sa.BigInteger(), nullable=False),
        sa.Column("task", sa.Integer(), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("slots", sa.Text(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("partition", sa.String(length=255), nullable=True),
        sa.Column("original", sa.Text(), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("outcome_at", sa.Double(), nullable=True),
        sa.Column("step_time", sa.Double(), nullable=True),
        sa.Column("slurm_step_time", sa.Double(), nullable=True),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("passes_main", sa.BigInteger(), nullable=False),
        sa.Column("passes_backfill", sa.BigInteger(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_intents")),
        sqlite_autoincrement=True,
    )
    create_index("ix_intents_cluster_closed", "intents", ["cluster", "closed"])
    create_index("ix_intents_cluster_job_submit", "intents", ["cluster", "job", "submit"])
    create_table(
        "job_outcomes",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("job", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("submit", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=True),
        sa.Column("app", sa.String(length=64), nullable=True),
        sa.Column("class", sa.String(length=32), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("gpus", sa.Text(), nullable=False),
        sa.Column("as_pinned", sa.Boolean(), nullable=True),
        sa.Column("step_time", sa.Double(), nullable=True),
        sa.Column("slurm_step_time", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "job", "submit", "task", "start", name=op.f("pk_job_outcomes")),
    )
    create_index("ix_job_outcomes_cluster_start", "job_outcomes", ["cluster", "start"])
    create_table(
        "leader",
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_leader")),
    )
    create_table(
        "state",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_state")),
    )
    create_table(
        "gpu_slots",
        sa.Column("id", ID, nullable=False),
        sa.Column("gpu_id", ID, nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name=op.f("fk_gpu_slots_gpu_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gpu_slots")),
    )
    create_index("ix_gpu_slots_gpu_id", "gpu_slots", ["gpu_id"])
    create_index("ix_gpu_slots_node_slot", "gpu_slots", ["node", "slot"])
    create_table(
        "runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("gpu_id", ID, nullable=False),
        sa.Column("class", sa.String(length=32), nullable=False),
        sa.Column("app", sa.String(length=64), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("night", sa.Integer(), nullable=False),
        sa.Column("measured_at", sa.Double(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("document", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("driver", sa.String(length=64), nullable=True),
        sa.Column("power_cap_w", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name=op.f("fk_runs_gpu_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("document", "seq", name=op.f("uq_runs_document_seq")),
    )
    create_index("ix_runs_gpu_id_class_night", "runs", ["gpu_id", "class", "night"])
    create_table(
        "scores",
        sa.Column("gpu_id", ID, nullable=False),
        sa.Column("class", sa.String(length=32), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("n_runs", sa.Integer(), nullable=False),
        sa.Column("ci_low", sa.Double(), nullable=True),
        sa.Column("ci_high", sa.Double(), nullable=True),
        sa.Column("measured_at", sa.Double(), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name=op.f("fk_scores_gpu_id")),
        sa.PrimaryKeyConstraint("gpu_id", "class", name=op.f("pk_scores")),
    )
