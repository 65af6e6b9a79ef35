"""The largest numbers that an edge market takes: beyond them tables outgrow memory, and whole
numbers 64 bits.
"""

from auctune.domain import InputError

MOST_CELLS = 10**7
"""Of slots x sites x resource types, and of slots x chunks of a job."""
MOST_CHUNKS = 10**4
MOST_EPOCHS = 10**6
MOST_RATE = 1e9
"""Chunks that a worker passes through in a slot; and workers that a chunk needs."""
MOST_UNITS = 1e11
MOST_WORTH = 1e11
"""What the type of money takes."""
_SHOWN = 40


def check_most(value: float, place: str, most: float) -> None:
    """Refuse a number that is too large.

    Raises:
        InputError: naming `place`.
    """
    if value > most:
        # A whole number of a file may be beyond float64.
        raise InputError(place, f"{value!r}"[:_SHOWN], f"{most:.10g} at most")
