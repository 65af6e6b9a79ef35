"""What can be done with a period of a zone's log, whatever the zone's kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.period import Period
from auctune.sim.comparison import Contender

if TYPE_CHECKING:
    from sqlalchemy import Engine

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Logged:
    """A period, and what it is read with.

    Attributes:
        period: of one zone.
        reader: of the database.
        entry: of the zone in auctune.toml; none: no file was named, or it is not in there.
    """

    period: Period
    reader: "Engine"
    entry: ZoneConfig | None


class Replay(Protocol):
    """A period of a zone of one kind."""

    def check(self, contender: Contender) -> None:
        """Refuse a mechanism or a setting that there is not, before it has run.

        Raises:
            InputError: with a place that is within it.
        """
        ...

    def decide_again(self, *, as_json: bool) -> tuple[Figures, bool]:
        """By what decided then, and show it; figures, and whether all came out as it was."""
        ...

    def compare_with(self, contenders: Sequence[Contender], *, as_json: bool) -> Figures:
        """What the period came to and would have come to under others, and show it."""
        ...


OpenReplay = Callable[[Logged], Replay]
"""Of one kind.

Raises:
    InputError: if something is missing without which such a log does not say all.
"""
