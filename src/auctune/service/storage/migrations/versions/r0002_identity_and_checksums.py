"""Add an id of the database, and a checksum of each event."""

import secrets
import zlib

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ROWS = 5000


def upgrade() -> None:
    """Add both; existing events get the checksum of their current columns."""
    connection = op.get_bind()
    connection.execute(
        sa.text("INSERT INTO meta (name, value) VALUES ('database_id', :id)"),
        {"id": secrets.token_hex(16)},
    )
    whole = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column(
        "events", sa.Column("checksum", whole, nullable=False, server_default=sa.text("0"))
    )
    if connection.dialect.name == "sqlite":
        op.execute("DROP TRIGGER events_refuse_update")
        _fill(connection)
        op.execute(
            "CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events "
            "BEGIN SELECT RAISE(ABORT, 'events is append-only'); END"
        )
    else:
        op.execute("ALTER TABLE events DISABLE TRIGGER events_refuse_change")
        _fill(connection)
        op.execute("ALTER TABLE events ENABLE TRIGGER events_refuse_change")


def _fill(connection: sa.Connection) -> None:
    after = -1
    while True:
        rows = connection.execute(
            sa.text(
                "SELECT seq, zone, slot, at, kind, job, body FROM events "
                "WHERE seq > :after ORDER BY seq LIMIT :rows"
            ),
            {"after": after, "rows": _ROWS},
        ).all()
        if not rows:
            return
        connection.execute(
            sa.text("UPDATE events SET checksum = :checksum WHERE seq = :seq"),
            [{"seq": row.seq, "checksum": _checksum(*row)} for row in rows],
        )
        after = rows[-1].seq


def _checksum(
    seq: int, zone: str, slot: int, at: float, kind: str, job: str | None, body: bytes
) -> int:
    head = f"{seq}\n{zone}\n{slot}\n{float(at)!r}\n{kind}\n{job or ''}\n"
    return zlib.crc32(body, zlib.crc32(head.encode()))
