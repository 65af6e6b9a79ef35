"""Who is to share a pool, as its owner says it: all threads, each time.

What is said twice changes nothing, and what was not heard is said again with the next word: no
order has to arrive.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from auctune.domain.checks import check_positive


class Wish(StrEnum):
    """What a thread is to do."""

    LEARN = "learn"
    REST = "rest"
    """To have no share until it is to learn again; its deadline stays."""
    END = "end"
    """To leave with the best that it has learned."""


@dataclass(frozen=True, slots=True)
class WantedThread:
    """One that is wanted; whoever is not, leaves with nothing.

    Attributes:
        id: its name, of its own for ever, and fit for a folder's.
        deadline: the unit by whose beginning it must be done.
        threshold: the loss of a unit at or under which it is done, > 0.
        lasting: what it trains, as whoever makes threads reads it; JSON values.
        batches_per_unit: N, as far as it is known; corrected by what it trains.
        wish: what it is to do.
    """

    id: str
    deadline: int
    threshold: float
    lasting: dict[str, Any]
    batches_per_unit: float
    wish: Wish = Wish.LEARN

    def __post_init__(self) -> None:
        check_positive(self.threshold, "threshold", "a loss > 0")
        check_positive(self.batches_per_unit, "batches_per_unit", "a number > 0")

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "WantedThread":
        """What `to_record` gave."""
        return cls(**{**record, "wish": Wish(record["wish"])})


Wanted = Mapping[str, WantedThread]
"""All of them, by id."""
