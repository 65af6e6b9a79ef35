"""What the store needs of a database, whichever it is."""

from typing import Protocol

from sqlalchemy import Connection, Engine


class Database(Protocol):
    """A database that one process at a time owns.

    Attributes:
        place: what it is called in errors; holds no password.
    """

    label: str

    def acquire(self) -> Connection:
        """Become its owner: the one connection that writes, for as long as it is open.

        Raises:
            InputError: if it cannot be opened, does not keep what it acknowledges, or has an owner;
                names who that is.
        """
        ...

    def reader(self) -> Engine:
        """Connections that read and cannot write."""
        ...

    def ensure_owned(self) -> None:
        """Before a write: that what is written to is still what was opened.

        Raises:
            StoreError: if it is not.
        """
        ...

    def purge(self, connection: Connection) -> None:
        """Leave nothing of what was overwritten or removed in the database's files.

        Args:
            connection: the one that writes, outside a transaction.
        """
        ...

    def release(self) -> None:
        """Let the next owner in; the writing connection is closed before."""
        ...
