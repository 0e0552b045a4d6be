"""What migrations do. In: a change. Out: the change made, unless it was made before.

MariaDB commits each change of the schema by itself: a migration that was cut short is run again from its beginning, and
passes over what is there already. The version is written last.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# MariaDB takes "Bert" for "bert" by default
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def create_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
    op.create_table(name, *parts, if_not_exists=True, **EXACT, **options)


def create_index(name: str, table: str, columns: list[str]) -> None:
    op.create_index(op.f(name), table, columns, unique=False, if_not_exists=True)


def add_column(table: str, column: sa.Column[Any]) -> None:
    if column.name not in {known["name"] for known in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)
