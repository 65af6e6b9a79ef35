"""Migrations: where they lead, and what a database of another release is told."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import DBAPIError

from auctune.domain import InputError
from auctune.service.erasure import erase_words
from auctune.service.storage import EventLog, Queries, Store, open_store, upgrade
from auctune.service.storage.engine import _MIGRATIONS
from auctune.service.storage.event_log import VERSION, log_versions
from auctune.service.storage.queries import metadata_rows
from auctune.service.storage.tables import (
    entries,
    events,
    job_metadata,
    jobs,
    keys,
    metadata,
    users,
)
from support.old_logs import make_tables, write_old_log
from support.store_rows import entry_rows, event_row, job_row

pytest_plugins = ["support.store_fixtures"]

SECOND = '''"""Adds a column."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add it, and a row with it."""
    op.add_column("meta", sa.Column("note", sa.Text))
    op.execute("INSERT INTO meta (name, value, note) VALUES ('a', 'b', 'c')")
'''


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """From here on a release with one migration more; its file."""
    folder = tmp_path / "migrations 100%"
    shutil.copytree(_MIGRATIONS, folder)
    monkeypatch.setattr("auctune.service.storage.engine._MIGRATIONS", folder)
    return folder / "versions" / "r0008_note.py"


def differences(store: Store) -> list[object]:
    with store.writer.begin():
        context = MigrationContext.configure(store.writer, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))


def test_migrations_lead_to_the_tables_that_are_read_and_written(store: Store) -> None:
    assert differences(store) == []


def test_the_comparison_with_the_tables_would_see_a_difference(store: Store) -> None:
    with store.writer.begin():
        store.writer.exec_driver_sql("DROP INDEX ix_events_job_seq")
        store.writer.exec_driver_sql("ALTER TABLE jobs ADD COLUMN more TEXT")
    assert len(differences(store)) == 2


def test_upgrading_the_newest_database_changes_nothing(store: Store, database: str) -> None:
    with store.writer.begin():
        store.writer.exec_driver_sql("INSERT INTO meta VALUES ('name', 'value')")
    store.close()
    upgrade(database)
    with open_store(database) as again:
        assert differences(again) == []
        names = again.writer.execute(text("SELECT name FROM meta")).scalars()
        assert set(names) == {"database_id", "log_version", "name"}


def test_a_database_of_an_earlier_release_is_refused_until_it_is_upgraded(
    database: str, next_release: Path
) -> None:
    open_store(database).close()
    next_release.write_text(SECOND)
    with pytest.raises(InputError, match=r"has tables of revision 0007; .*: auctune db upgrade"):
        open_store(database)
    upgrade(database)
    with open_store(database) as store:
        assert store.writer.execute(text("SELECT note FROM meta WHERE name = 'a'")).scalar() == "c"


def test_a_log_from_before_events_had_versions_is_read_erased_and_protected(database: str) -> None:
    write_old_log(database, 11)
    with pytest.raises(InputError, match=r"revision 0002 \(log of version 11 or before\)"):
        open_store(database)
    upgrade(database)
    with open_store(database) as store:
        assert differences(store) == []
        assert log_versions(store.writer) == (11, VERSION)
        log = EventLog(store.reader)
        assert [row.seq for row in log.read_zone("north")] == [1, 2]
        erase_words(store, events.c.seq == 2, lambda _: b"{}")
        assert [row.body for row in log.read_zone("north", after=1)] == [b"{}"]
        with pytest.raises(DBAPIError, match="append-only"), store.writer.begin():
            store.writer.execute(events.update().values(version=12))


def test_an_upgrade_sums_accounts_and_finds_jobs_without_metadata(database: str) -> None:
    make_tables(database, "0004")
    rows = [(jobs, job_row(f"job-{seq}", seq)) for seq in (1, 2)]
    rows += [(entries, row) for seq in (1, 2) for row in entry_rows(10 * seq, seq, amount=seq)]
    rows += [(job_metadata, row) for row in metadata_rows(2, "ada", {"a": "b"})]
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(events.insert(), [event_row(seq) for seq in (1, 2)])
        for table, row in rows:
            connection.execute(table.insert(), row)
    engine.dispose()
    upgrade(database)
    with open_store(database) as store:
        queries = Queries(store.reader)
        assert queries.balances() == {"market": 3, "user:ada": -3}
        for sought, job in (({}, "job-1"), ({"a": "b"}, "job-2")):
            assert [row.id for row in queries.jobs("ada", 9, metadata=sought).items] == [job]
        assert differences(store) == []


def test_an_upgrade_revokes_the_keys_that_vendors_had(database: str) -> None:
    make_tables(database, "0005")
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(users.insert(), {"id": "ada", "created_at": 1.0, "body": b"{}"})
        for id_, role, revoked in (
            ("a", "vendor", None),
            ("b", "vendor", 5.0),
            ("c", "user", None),
        ):
            row: dict[str, Any] = {
                "id": id_,
                "hash": id_,
                "prefix": "sk",
                "user": "ada",
                "role": role,
            }
            row |= {"created_at": 1.0, "revoked_at": revoked, "body": b"{}"}
            connection.execute(keys.insert(), row)
    engine.dispose()
    upgrade(database)
    with open_store(database) as store:
        found = store.writer.execute(select(keys.c.id, keys.c.role, keys.c.revoked_at)).all()
        assert {row.role for row in found} == {"user"}
        revoked_at = {row.id: row.revoked_at for row in found}
        assert revoked_at == {"a": revoked_at["a"], "b": 5.0, "c": None}
        assert revoked_at["a"] == pytest.approx(time.time(), abs=600)


def test_a_log_from_before_version_11_is_refused_and_stays_as_it_was(database: str) -> None:
    write_old_log(database, 10)
    for _ in range(2):
        with pytest.raises(InputError, match="zone north: log: is of version 10; expected"):
            upgrade(database)


def test_a_migration_that_fails_leaves_no_half_of_it(database: str, next_release: Path) -> None:
    open_store(database).close()
    next_release.write_text(SECOND.replace("INSERT INTO meta", "INSERT INTO nothing"))
    with pytest.raises(Exception, match="nothing"):
        upgrade(database)
    next_release.write_text(SECOND)
    upgrade(database)


def test_a_database_of_a_later_release_is_refused(database: str, next_release: Path) -> None:
    next_release.write_text(SECOND)
    open_store(database).close()
    next_release.unlink()
    for act in (open_store, upgrade):
        with pytest.raises(InputError, match="has tables of revision 0008; expected at most 0007"):
            act(database)


def test_a_database_with_other_tables_in_it_is_left_alone(store: Store, database: str) -> None:
    with store.writer.begin():
        store.writer.exec_driver_sql("DROP TABLE alembic_version")
    store.close()
    for act in (open_store, upgrade):
        with pytest.raises(InputError, match="holds tables that are not auctune's: balances"):
            act(database)
