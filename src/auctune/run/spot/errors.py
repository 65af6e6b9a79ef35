"""What can go wrong with a run that is nobody's input."""

from auctune.domain import AuctuneError


class SpotRunError(AuctuneError):
    """The workers of a run cannot do its work."""
