"""Add to each file when it expires."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TIME: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")


def upgrade() -> None:
    """Add the column; files that are stored already do not expire."""
    op.add_column("files", sa.Column("expires_at", TIME))
    stored = sa.text("deleted_at IS NULL")
    op.create_index(
        "ix_files_expires_at_seq",
        "files",
        ["expires_at", "seq"],
        sqlite_where=stored,
        postgresql_where=stored,
    )
