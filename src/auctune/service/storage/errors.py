"""What can go wrong while something is written.

Neither error quotes rows: what they hold may be another user's.
"""

from auctune.domain import AuctuneError


class UnitError(AuctuneError):
    """This unit could not be written, and nothing of it was; others are not touched."""


class StoreError(AuctuneError):
    """The database is gone, full or broken: nothing is written until it is opened anew.

    A unit that fails so may yet be in the database, if it was lost while a transaction ended.
    Whoever opens the store again reads from it what is true.
    """
