"""Add to each event the version of the log that it was written in."""

import json

import sqlalchemy as sa
from alembic import op

from auctune.service.storage.event_log import check_version

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

WHOLE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Mark existing events as version 11; refuse logs of earlier versions, which no step reads."""
    created = sa.text("SELECT zone, body FROM events WHERE type = 'zone.created'")
    for zone, body in op.get_bind().execute(created):
        check_version(f"zone {zone}: log", json.loads(bytes(body))["version"])
    op.add_column("events", sa.Column("version", WHOLE, nullable=False, server_default="11"))
    op.execute("INSERT INTO meta (name, value) VALUES ('log_version', '11')")
