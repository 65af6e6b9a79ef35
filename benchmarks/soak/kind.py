"""What the soak must know of a kind of zone."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from auctune.service.storage.events import ZoneEvent
from auctune.service.zones.core.state import ZoneModel
from soak.data_sets import MakeData
from soak.fault import Fault
from soak.log import Story
from soak.site import Site

Record = dict[str, Any]


class SoakKind(Protocol):
    """One zone of one kind."""

    @property
    def zone(self) -> str:
        """Its name."""
        ...

    @property
    def weight(self) -> float:
        """How many of all bids are drawn for it, by comparison."""
        ...

    @property
    def replays(self) -> bool:
        """Whether its log can be decided again."""
        ...

    @property
    def faults(self) -> Sequence[Fault]:
        """What can be broken of it alone."""
        ...

    def settings(self, site: Site) -> str:
        """Its table in auctune.toml, with all that belongs to it."""
        ...

    @property
    def data_sets(self) -> Mapping[str, MakeData]:
        """What bidders bring, by sort: random files, the same for all kinds that name the sort."""
        ...

    def bid(self, draw: random.Random, files: Mapping[str, Sequence[str]]) -> Record:
        """A random bid: all that a request for a job has, but for what says whose it is.

        Args:
            draw: everything random.
            files: ids of one's data sets by sort, one at least of each.
        """
        ...

    def planned(self, decided: Mapping[str, Any]) -> list[Record]:
        """The cells that were sold, by the body of a decision: slot and node of each."""
        ...

    def prices(self, memory: ZoneModel[Any, Any]) -> Mapping[str, Any]:
        """Prices and use that a memory has come to, by the names in its operator's table."""
        ...

    def fresh(self, opened: Mapping[str, Any]) -> ZoneModel[Any, Any]:
        """A memory of nothing, for a zone that was opened so."""
        ...

    def watch(self, memory: ZoneModel[Any, Any], event: ZoneEvent) -> Iterator[str]:
        """What is wrong with a memory that has just taken over an event."""
        ...

    def check(self, story: Story) -> Iterator[str]:
        """What is wrong with a job that is over, by its events and entries alone."""
        ...
