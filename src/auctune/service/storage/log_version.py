"""The versions of the log in a database: the newest is in the table `meta`, each event has its own.

A service records its version before it writes an event, so that a release that cannot read some
events refuses the whole log, however many of them a snapshot stands for.
"""

from sqlalchemy import Connection, select

from auctune.service.storage.tables import events, meta
from auctune.service.storage.upcasting import VERSION, check_version

NAME = "log_version"
"""Name of the newest version in the table `meta`; migrations write the first one."""


def log_versions(connection: Connection) -> tuple[int, int]:
    """Return the version of the oldest event, and the newest version of any."""
    with connection.begin():
        newest = int(
            connection.execute(select(meta.c.value).where(meta.c.name == NAME)).scalar_one()
        )
        first = select(events.c.version).order_by(events.c.seq).limit(1)
        oldest = connection.execute(first).scalar()
    return (newest if oldest is None else oldest), newest


def check_log(connection: Connection, place: str) -> None:
    """Refuse a log with events that this release cannot read."""
    for version in log_versions(connection):
        check_version(f"{place}: log", version)


def record_version(connection: Connection) -> None:
    """Record that events of this version are written from now on."""
    if log_versions(connection)[1] != VERSION:
        with connection.begin():
            connection.execute(meta.update().where(meta.c.name == NAME).values(value=str(VERSION)))
