"""How much of what could be tested is: `make test` has a sample, `make thorough` all."""

import os

from hypothesis import settings

THOROUGH = os.environ.get("AUCTUNE_THOROUGH") == "1"
_SHARE = 1.0 if THOROUGH else 0.25
_FEWEST = 10


def drawn(count: int) -> settings:
    """Settings of a test by drawn examples.

    Args:
        count: of examples in a thorough run; the quick one has a quarter of them.
    """
    quick = max(_FEWEST, round(count * _SHARE))
    return settings(max_examples=min(count, quick), deadline=None)
