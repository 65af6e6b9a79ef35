"""Runs migrations on the connection that it is given; Alembic executes this file."""

from alembic import context

from auctune.service.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
    # A migration is whole or not there; SQLite can do this too when a transaction is begun first.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
