"""An edge zone that is open: what requests speak to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.domain import InputError
from auctune.service.config.zone import EDGE
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import reject_unsupported, unsupported_field
from auctune.service.zones.bidding_zone import BiddingZone
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.edge.bidding import EdgeBidding
from auctune.service.zones.edge.sites import site_table
from auctune.service.zones.edge.supply import EdgeSupply
from auctune.service.zones.edge.zone import EdgeZone

_FOREIGN = ("target_loss", "share")
# Of `market.lora`, what a model of the edge trains by too.
_LORA = {"learning_rate", "weight_decay"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEdge(BiddingZone[EdgeZone, EdgeBidding]):
    """One zone.

    Attributes:
        supply: what it offers.
    """

    supply: EdgeSupply

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        return EDGE

    @property
    def base(self) -> str:
        """Name of the model that it trains."""
        return self.supply.model

    @property
    def clock(self) -> SlotClock:
        """Its slots."""
        return self.supply.clock

    @property
    def num_slots(self) -> int:
        """How many slots from now on it looks ahead."""
        return self.supply.market.slots

    @property
    def num_nodes(self) -> int:
        """How many sites it has."""
        return len(self.supply.market.sites)

    @property
    def sites(self) -> "OpenEdge":
        """Its sites, as an operator sees them."""
        return self

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job, by what the request says alone; none: it may."""
        if request.market.sites is None:
            return "needs market.sites"
        missing = set(request.market.sites) - set(self.supply.market.site_ids)
        if missing:
            return f"has no site {', '.join(sorted(missing))}"
        found = _unknown(request)
        return None if found is None else f"does not support {found}"

    async def table(self) -> Mapping[str, Any]:
        """Sites, prices and use by slot: `SiteTable` of the API."""
        return await self.call(site_table)

    def _check(self, request: JobRequest) -> None:
        reject_unsupported(request, self.name, EDGE, *_FOREIGN)
        found = _unknown(request)
        if found is not None:
            expected = f"none: zone {self.name} ({EDGE}) does not support it"
            raise InputError(found, "is given", expected)
        if request.market.sites is None:
            expected = f"the files of sites: zone {self.name} trains where data are"
            raise InputError("market.sites", "is missing", expected)


def _unknown(request: JobRequest) -> str | None:
    """The first thing that a request says and that has no meaning here, as errors name it."""
    found = unsupported_field(request, *_FOREIGN)
    if found is not None:
        return found
    if request.market.repair:
        return "market.repair"
    lora = sorted(request.market.lora.model_fields_set - _LORA)
    return f"market.lora.{lora[0]}" if lora else None
