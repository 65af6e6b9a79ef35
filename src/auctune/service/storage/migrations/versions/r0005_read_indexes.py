"""Index what requests read, and keep the balances of accounts."""

import sqlalchemy as sa
from alembic import op

from auctune.service.storage.queries import metadata_rows

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PAGE = 500
_INDEXES = {
    "jobs": (("zone", "seq"), ("zone", "status", "seq")),
    "entries": (("account", "at", "id"),),
    "files": (("owner", "purpose", "created_at", "bytes"),),
}
_OF_STORED_FILES = (
    ("owner", "seq", "bytes"),
    ("owner", "purpose", "seq"),
    ("owner", "sha256", "seq"),
    ("owner", "filename", "seq"),
)
# One row for each row of `entries`.
_ON_SQLITE = """
CREATE TRIGGER entries_add_to_balances AFTER INSERT ON entries BEGIN
    INSERT INTO balances (account, amount) VALUES (NEW.account, NEW.amount)
    ON CONFLICT (account) DO UPDATE SET amount = amount + excluded.amount;
END
"""
# One row for each account of a statement: updates of one row are slow within a transaction.
_ON_POSTGRESQL = (
    """
CREATE FUNCTION auctune_add_to_balances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO balances (account, amount)
    SELECT account, sum(amount) FROM added GROUP BY account
    ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount;
    RETURN NULL;
END
$$
""",
    """
CREATE TRIGGER entries_add_to_balances AFTER INSERT ON entries
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION auctune_add_to_balances()
""",
)


def upgrade() -> None:
    """Add the indexes, the balances so far, and rows for jobs without metadata."""
    for table, indexes in _INDEXES.items():
        for columns in indexes:
            _add_index(table, columns)
    op.drop_index("ix_files_owner_seq", "files")
    op.drop_index("ix_jobs_zone_status", "jobs")
    for columns in _OF_STORED_FILES:
        _add_index("files", columns, sa.text("deleted_at IS NULL"))
    _keep_balances()
    _number_jobs_without_metadata()


def _add_index(table: str, columns: tuple[str, ...], where: sa.TextClause | None = None) -> None:
    name = f"ix_{table}_{'_'.join(columns)}"
    op.create_index(name, table, list(columns), sqlite_where=where, postgresql_where=where)


def _keep_balances() -> None:
    op.create_table(
        "balances",
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("amount", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("account", name="pk_balances"),
        sqlite_strict=True,
    )
    op.execute(
        "INSERT INTO balances (account, amount) "
        "SELECT account, sum(amount) FROM entries GROUP BY account"
    )
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in (_ON_SQLITE,) if is_sqlite else _ON_POSTGRESQL:
        op.execute(statement)


def _number_jobs_without_metadata() -> None:
    connection, after = op.get_bind(), -1
    insert = sa.text("INSERT INTO job_metadata (seq, pair) VALUES (:seq, :pair)")
    page = sa.text(
        "SELECT seq, owner FROM jobs WHERE seq > :after AND NOT EXISTS "
        "(SELECT 1 FROM job_metadata WHERE job_metadata.seq = jobs.seq) "
        "ORDER BY seq LIMIT :page"
    )
    while stored := connection.execute(page, {"after": after, "page": _PAGE}).all():
        rows = [row for seq, owner in stored for row in metadata_rows(seq, owner, {})]
        connection.execute(insert, rows)
        after = stored[-1].seq
