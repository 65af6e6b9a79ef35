"""Create the tables, and the triggers that make events and entries append-only."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None
branch_labels = None
depends_on = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")

_REFUSE = """
CREATE FUNCTION auctune_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$
"""


def upgrade() -> None:
    """Create all tables in an empty database, and give it an id."""
    _create_market_tables()
    _create_file_tables()
    _create_account_tables()
    _create_other_tables()
    _make_append_only("events", "entries")
    op.execute(f"INSERT INTO meta (name, value) VALUES ('database_id', '{secrets.token_hex(16)}')")


def _create_market_tables() -> None:
    _table(
        "events",
        sa.Column("seq", WHOLE, autoincrement=False, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("slot", WHOLE, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("checksum", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
    )
    op.create_index("ix_events_zone_seq", "events", ["zone", "seq"])
    op.create_index("ix_events_job_seq", "events", ["job", "seq"])
    _table(
        "jobs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("seq", WHOLE, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["seq"], ["events.seq"], name="fk_jobs_seq_events"),
        sa.UniqueConstraint("seq", name="uq_jobs_seq"),
    )
    op.create_index("ix_jobs_owner_seq", "jobs", ["owner", "seq"])
    op.create_index("ix_jobs_zone_status", "jobs", ["zone", "status"])
    _table(
        "entries",
        sa.Column("id", WHOLE, autoincrement=False, nullable=False),
        sa.Column("seq", WHOLE, nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("amount", WHOLE, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_entries"),
        sa.ForeignKeyConstraint(["seq"], ["events.seq"], name="fk_entries_seq_events"),
    )
    op.create_index("ix_entries_account_id", "entries", ["account", "id"])
    op.create_index("ix_entries_job", "entries", ["job"])
    _table(
        "snapshots",
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("seq", WHOLE, autoincrement=False, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("zone", "seq", name="pk_snapshots"),
    )


def _create_file_tables() -> None:
    _table(
        "files",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("seq", WHOLE, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("bytes", WHOLE, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("detail", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("deleted_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_files"),
        sa.UniqueConstraint("seq", name="uq_files_seq"),
    )
    op.create_index("ix_files_owner_seq", "files", ["owner", "seq"])


def _create_account_tables() -> None:
    _table(
        "teams",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_teams"),
    )
    _table(
        "users",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("team", sa.Text),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.ForeignKeyConstraint(["team"], ["teams.id"], name="fk_users_team_teams"),
    )
    _table(
        "keys",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("prefix", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("revoked_at", TIME),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.ForeignKeyConstraint(["user"], ["users.id"], name="fk_keys_user_users"),
        sa.UniqueConstraint("hash", name="uq_keys_hash"),
    )


def _create_other_tables() -> None:
    _table(
        "idempotency_keys",
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("key_id", "token", name="pk_replies"),
    )
    _table(
        "meta",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_meta"),
    )


def _table(name: str, *columns: sa.Column[object] | sa.Constraint) -> None:
    op.create_table(name, *columns, sqlite_strict=True)


def _make_append_only(*tables: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for table in tables:
            for change in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_refuse_{change.lower()} BEFORE {change} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
                )
        return
    op.execute(_REFUSE)
    for table in tables:
        op.execute(
            f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION auctune_refuse_change()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_refuse_truncate BEFORE TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION auctune_refuse_change()"
        )
