"""What a run of the edge cannot go on from."""

from auctune.domain.errors import AuctuneError


class EdgeRunError(AuctuneError):
    """The run stops here; what it has saved stands."""
