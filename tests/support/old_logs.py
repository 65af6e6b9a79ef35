"""Databases as earlier releases left them."""

from alembic import command
from sqlalchemy import create_engine, text

from auctune.service.storage.engine import _config
from support.store_rows import event_row


def make_tables(database: str, revision: str) -> None:
    """Make the tables of a revision in an empty database."""
    config, engine = _config(), create_engine(database)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def write_old_log(database: str, version: int) -> None:
    """Make a database from before events had versions, with two events of a zone."""
    make_tables(database, "0002")
    created = f'{{"version": {version}}}'.encode()
    rows = [
        event_row(1, type="zone.created", body=created, version=11),
        event_row(2, type="job.failed", body=b'{"message": "private"}', version=11),
    ]
    columns = [column for column in rows[0] if column != "version"]
    marks = ", ".join(f":{column}" for column in columns)
    insert = text(f"INSERT INTO events ({', '.join(columns)}) VALUES ({marks})")
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(insert, [{column: row[column] for column in columns} for row in rows])
    engine.dispose()
