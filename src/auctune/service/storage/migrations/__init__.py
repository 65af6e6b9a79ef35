"""Alembic migrations of the database; see `auctune.service.storage.engine`."""
