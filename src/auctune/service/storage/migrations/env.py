"""Run migrations on the connection of the configuration; Alembic executes this file."""

from alembic import context

from auctune.service.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    # All or nothing; on SQLite too, as the transaction is begun explicitly.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
