"""Index the metadata of jobs."""

import json

import sqlalchemy as sa
from alembic import op

from auctune.service.storage.queries import metadata_rows

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_PAGE = 500


def upgrade() -> None:
    """Add the table, with a row for each pair that jobs have."""
    table = op.create_table(
        "job_metadata",
        sa.Column("seq", WHOLE, sa.ForeignKey("jobs.seq"), nullable=False),
        sa.Column("pair", WHOLE, nullable=False),
        sa.PrimaryKeyConstraint("seq", "pair", name="pk_job_metadata"),
        sqlite_strict=True,
    )
    op.create_index("ix_job_metadata_pair_seq", "job_metadata", ["pair", "seq"])
    connection, after = op.get_bind(), -1
    page = sa.text("SELECT seq, owner, body FROM jobs WHERE seq > :after ORDER BY seq LIMIT :page")
    while stored := connection.execute(page, {"after": after, "page": _PAGE}).all():
        rows = [
            row
            for seq, owner, body in stored
            for row in metadata_rows(seq, owner, json.loads(bytes(body))["request"].get("metadata"))
        ]
        if rows:
            connection.execute(table.insert(), rows)
        after = stored[-1].seq
