"""The database of the service, which is read and never written."""

from collections.abc import Iterator

from auctune.service.doctor.finding import Finding, wrong
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.settings import unread


def look(at: Installation) -> Iterator[Finding]:
    """Whether it is there, whole, and of this release."""
    from auctune.domain import InputError
    from auctune.service.doctor.postgresql_database import PostgresqlPatient
    from auctune.service.doctor.sqlite_database import look_at_file
    from auctune.service.store.engine import FILE_NAME, sqlite_file

    if at.file is None:
        yield unread("database")
        return
    url = at.file.database
    try:
        file = at.data / FILE_NAME if url is None else sqlite_file(url)
        if file is not None:
            yield from look_at_file(file)
        else:
            assert url is not None
            yield from PostgresqlPatient(url).look()
    except InputError as error:
        yield wrong("database", f"{error.place}: {error.found}", error.expected)
