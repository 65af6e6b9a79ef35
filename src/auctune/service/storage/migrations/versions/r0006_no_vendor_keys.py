"""Revoke keys of vendors: what they were for, vendors do by the tokens that they share."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Revoke them, as keys of users: every request with one was refused."""
    revoke = "UPDATE keys SET role = 'user', revoked_at = COALESCE(revoked_at, :now)"
    op.get_bind().execute(sa.text(f"{revoke} WHERE role = 'vendor'"), {"now": time.time()})
