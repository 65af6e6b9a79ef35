"""A PostgreSQL database, read in transactions that cannot write."""

from collections.abc import Iterator

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from auctune.service.doctor.finding import Finding, ok, wrong
from auctune.service.store.postgresql import check_server, holder_of
from auctune.service.store.version import check_tables, revision

_CONNECT_SECONDS = 5
_OLDEST = 130000


class PostgresqlPatient:
    """A database of a PostgreSQL server.

    Args:
        url: of it, as in the settings.
    """

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._place = parsed.render_as_string(hide_password=True)
        self._engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            hide_parameters=True,
            connect_args={"connect_timeout": _CONNECT_SECONDS},
            execution_options={"postgresql_readonly": True},
        )

    def look(self) -> Iterator[Finding]:
        """Whether it answers, is fit for a service, and of this release.

        Raises:
            InputError: for a setting of the server, or tables, that the service refuses.
        """
        try:
            with self._engine.connect() as connection:
                yield from self._findings(connection)
        except DBAPIError as error:
            reason = str(error.orig).splitlines()[0]
            mend = "database in auctune.toml, or the server: pg_isready"
            yield wrong("database", f"{self._place} cannot be reached: {reason}", mend)

    def _findings(self, connection: Connection) -> Iterator[Finding]:
        with connection.begin():
            release = connection.exec_driver_sql("SHOW server_version").scalar_one()
            number = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
            check_server(connection, self._place)
            holder = holder_of(connection)
        if number < _OLDEST:
            said = f"{self._place} is PostgreSQL {release}, which nobody mends any more"
            yield wrong("database", said, "PostgreSQL 13 or later")
            return
        by = "no service owns it" if holder is None else f"owned by {holder}"
        yield ok("database", f"{self._place} answers: PostgreSQL {release}; {by}")
        if revision(connection, self._place) is None:
            yield ok("database", "it is empty: its tables are made at the first start")
            return
        check_tables(connection, self._place)
        yield ok("database", "its tables are of this release")
