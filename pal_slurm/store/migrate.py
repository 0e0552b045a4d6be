"""Schema changes, by Alembic. In: an engine. Out: a database at HEAD, or as it was before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from pal_slurm.errors import StoreError
from pal_slurm.store.engine import BATCH_WAIT_S, WRITES, connect, schema_version
from pal_slurm.store.faults import in_sentences
from pal_slurm.store.place import as_owner_of
from pal_slurm.store.tables import HEAD

_HERE = Path(__file__).parent / "migrations"


def _alembic() -> AlembicConfig:
    config = AlembicConfig()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def head() -> str | None:
    """The newest migration that is shipped."""
    return ScriptDirectory.from_config(_alembic()).get_current_head()


def revisions() -> list[str]:
    """Every schema that ever was, oldest first."""
    return sorted(script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions())


def upgrade(engine: Engine, shown: str, to: str = HEAD) -> str:
    """Everything to HEAD (or to an older schema) in one transaction: killed in between, the database is as it was. In
    MariaDB, whose schema changes can't be rolled back, it is in between, and the next upgrade goes on from there."""
    config = _alembic()
    with in_sentences(shown), engine.connect() as bare:
        bare.info[WRITES] = True
        with _alone(bare), bare.begin():
            if bare.dialect.name == "postgresql":
                bare.execute(text("SELECT pg_advisory_xact_lock(7061766)"))
            config.attributes["connection"] = bare
            try:
                command.upgrade(config, to)
            except CommandError as error:
                raise StoreError(f"database {shown} can't be upgraded: {error}") from error
    return to


@contextmanager
def _alone(db: Connection) -> Iterator[None]:
    """MariaDB: others that upgrade at the same moment wait until this one has committed, and then find it done.

    PostgreSQL has a lock that ends with the transaction; in SQLite the transaction of the others does not begin.
    """
    if db.dialect.name not in ("mysql", "mariadb"):
        yield
        return
    name = {"name": "pal_slurm.upgrade", "wait": BATCH_WAIT_S}
    if not db.execute(text("SELECT GET_LOCK(:name, :wait)"), name).scalar():
        raise StoreError("another program upgrades this database now; try again when it is done")
    db.commit()  # the lock belongs to the connection: the transaction of the upgrade begins and ends within it
    try:
        yield
    finally:
        with suppress(SQLAlchemyError):  # a connection that is gone has given it back
            db.execute(text("SELECT RELEASE_LOCK(:name)"), name)
            db.commit()


def upgrade_url(url: str) -> tuple[str | None, str]:
    """`palctl db upgrade`: the version before and after. Makes the database where there is none."""
    engine, shown, path = connect(url, create=True, lock_wait_s=BATCH_WAIT_S)
    with as_owner_of(path):
        try:
            before = schema_version(engine, shown)
            if before is not None and before > HEAD:
                raise StoreError(f"database {shown} has schema {before}, newer than {HEAD}; install that release")
            return before, upgrade(engine, shown)
        finally:
            engine.dispose()
