"""WholeNumber numbers of 64 bits and texts of 16 MiB: what Slurm can say fits. SQLite knows no difference."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name == "sqlite":
        return
    look = sa.inspect(bind)
    server = bind.dialect.name
    for table in look.get_table_names():
        for column in look.get_columns(table):
            kind: sa.types.TypeEngine[Any] | None = None
            if isinstance(column["type"], sa.Integer) and not isinstance(column["type"], sa.BigInteger):
                kind = None if isinstance(column["type"], mysql.TINYINT) else sa.BigInteger()  # that is a truth there
            elif isinstance(column["type"], sa.Text) and server != "postgresql":
                kind = mysql.MEDIUMTEXT()
            if kind is not None:
                op.alter_column(
                    table, column["name"], type_=kind, existing_type=column["type"],
                    existing_nullable=bool(column["nullable"]),
                )  # fmt: skip
