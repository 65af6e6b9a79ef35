"""Databases of both kinds; pytest_plugins = ["support.store_fixtures"]."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from auctune.service.storage import Committer, Store, open_store
from support.postgres import PostgresServer, find_programs, private_server

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres_programs() -> Path:
    """Where the programs of a server are; without them all that needs one is skipped."""
    programs = find_programs()
    if programs is None:
        pytest.skip(
            "POSTGRESQL IS NOT TESTED: no initdb and postgres on PATH or in /usr/lib/postgresql; "
            "install a server (apt-get install postgresql)"
        )
    return programs


@pytest.fixture(scope="session")
def postgres(postgres_programs: Path) -> Iterator[PostgresServer]:
    """A server for all tests; each makes its own database in it."""
    with private_server(postgres_programs) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres: PostgresServer) -> str:
    """The database that is cleared for each test."""
    return postgres.make_database()


@pytest.fixture
def crashing_postgres(postgres_programs: Path) -> Iterator[PostgresServer]:
    """A server of the test's own, to be crashed and started again."""
    with private_server(postgres_programs) as server:
        yield server


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'auctune.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    url: str = request.getfixturevalue("postgres_database")
    server.clear(url)
    return url


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with open_store(database) as opened:
        yield opened


@pytest.fixture
def committer(store: Store) -> Iterator[Committer]:
    with Committer(store) as started:
        yield started
