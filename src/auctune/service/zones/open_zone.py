"""A zone that is open for business: what requests speak to, whatever its kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from auctune.domain import Explanation
from auctune.service.jobs.request import JobRequest
from auctune.service.zones.answers_requests import AnswersRequests
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.desk import Desk
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.zone import Zone


@dataclass(frozen=True, slots=True)
class Explained:
    """A decision, and why.

    Attributes:
        decided: the event.
        why: the reason for people; none: it was admitted.
        explanation: what its plan cost then, and what others would have cost.
    """

    decided: ZoneEvent
    why: str | None
    explanation: Explanation


class Explainer(Protocol):
    """Tells afterwards why a job got its answer."""

    def explain(self, decided: ZoneEvent) -> Explained:
        """Why, by the market as it was just before; takes seconds, and may run on any thread."""
        ...


class Nodes(Protocol):
    """A zone's nodes, as an operator sees them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their ids."""
        ...

    async def prices(self) -> Mapping[str, Any]:
        """Prices and use by slot and node: `PriceTable` of the API."""
        ...

    async def drain(self, node: str) -> None:
        """Take one off the market."""
        ...

    async def return_node(self, node: str) -> None:
        """Put one on the market again."""
        ...


class Renting(Protocol):
    """A zone that rents what it runs jobs on."""

    async def rented(self) -> Mapping[str, Any]:
        """The market and what is held, by slot: `RentedTable` of the API."""
        ...


class SharedPool(Protocol):
    """A zone's pool, as an operator sees it."""

    async def shares(self) -> Mapping[str, Any]:
        """Who is in it, and the shares of the newest units: `PoolTable` of the API."""
        ...


class Sites(Protocol):
    """A zone's sites, as an operator sees them."""

    async def table(self) -> Mapping[str, Any]:
        """Prices, use and traffic by slot: `SiteTable` of the API."""
        ...


class OpenZone(AnswersRequests, Protocol):
    """One zone."""

    @property
    def name(self) -> str:
        """Unique in the service."""
        ...

    @property
    def kind(self) -> str:
        """Of which kind it is: a name of the table of kinds."""
        ...

    @property
    def base(self) -> str:
        """Name of the base model that it trains."""
        ...

    @property
    def desk(self) -> Desk[Zone]:
        """Decides."""
        ...

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        ...

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        ...

    @property
    def num_nodes(self) -> int:
        """How many nodes it has at most."""
        ...

    @property
    def nodes(self) -> Nodes | None:
        """Those that an operator prices and drains; none: it has none of its own."""
        ...

    @property
    def renting(self) -> "Renting | None":
        """What an operator sees of what it rents; none: it rents nothing."""
        ...

    @property
    def pool(self) -> SharedPool | None:
        """What its jobs share; none: they share none."""
        ...

    @property
    def sites(self) -> Sites | None:
        """Where data are; none: nowhere but here."""
        ...

    @property
    def explainer(self) -> Explainer | None:
        """Explains its decisions; none: they are not explained."""
        ...

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may.

        For people, of the zone: "has no sites", "needs market.deadline".
        """
        ...

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        ...
