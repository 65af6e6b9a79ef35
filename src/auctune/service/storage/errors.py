"""Errors of a write. Neither quotes rows, which may be another user's."""

from auctune.domain import AuctuneError


class BatchError(AuctuneError):
    """A batch could not be written, and nothing of it was; other batches are not affected."""


class StoreError(AuctuneError):
    """The database is gone, full or broken: nothing is written until it is opened again.

    A batch may be in the database all the same, if the connection broke during the commit. Whoever
    opens the store again reads from it what was committed.
    """
