"""Alembic's entry. In: the connection that `migrate.upgrade` opened. Out: migrations run in its transaction."""

from alembic import context

from pal_slurm.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
