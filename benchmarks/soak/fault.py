"""Something that breaks, and is mended later."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from soak.stage import Stage


@dataclass(frozen=True, slots=True)
class Cure:
    """What mends a fault.

    Attributes:
        after: seconds.
        apply: does it.
    """

    after: float
    apply: Callable[[], None]


class Fault(Protocol):
    """One way to break something."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def weight(self) -> float:
        """How often, by comparison."""
        ...

    def strike(self, stage: "Stage", draw: random.Random) -> Cure | None:
        """Break it; what mends it, none: that is done, or goes by itself."""
        ...
