"""How much of what could be tested is: tests have a sample, `make test-all THOROUGH=1` all."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

THOROUGH = os.environ.get("AUCTUNE_THOROUGH") == "1"
# What is here for tests. Those of a module that imports any of it are marked `sampled`.
EXTENDS = frozenset({"THOROUGH", "drawn", "times", "rotated", "alternated"})
_SHARE = 1.0 if THOROUGH else 0.25
_FEWEST = 10


def drawn(count: int) -> settings:
    """Settings of a test by drawn examples.

    Args:
        count: of examples in a thorough run; the quick one has a quarter of them.
    """
    quick = max(_FEWEST, round(count * _SHARE))
    return settings(max_examples=min(count, quick))


def times(count: int) -> int:
    """Return how many seeded markets a test draws: `count` in a thorough run, else a third."""
    return count if THOROUGH else -(-count // 3)


# Set before workers start, so that all of them collect the same tests at midnight too.
_ROTATION = int(os.environ.setdefault("AUCTUNE_ROTATION", str(int(time.time() // 86_400))))
_ROTATION_DAYS = 3


def rotated(options: Mapping[str, T]) -> dict[str, T]:
    """Return every third option, each day others; all of them in a thorough run.

    `AUCTUNE_ROTATION=N`, the number of a day, repeats the choice of that day.
    """
    if THOROUGH:
        return dict(options)
    chosen = range(_ROTATION % _ROTATION_DAYS, len(options), _ROTATION_DAYS)
    names = list(options)
    return {names[index]: options[names[index]] for index in chosen}


def alternated(options: Sequence[T]) -> list[T]:
    """Return one of the options, each day another one; all of them in a thorough run.

    For tests that take minutes. `AUCTUNE_ROTATION` as in `rotated`.
    """
    return list(options) if THOROUGH else [options[_ROTATION % len(options)]]
