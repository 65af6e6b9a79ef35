"""Which zone a job goes to, where its owner names none and several could train it.

All of them are asked what it would cost. The default is the cheapest, by the cost that is not
exceeded with a probability of 0.9, among those that keep the owner's limit on the risk of being
late; if none keeps it, the one with the least risk. Of equals the first in the settings.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from auctune.domain import InputError
from auctune.run.data.client import DataError
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.jobs.request import JobRequest
from auctune.service.zones.offer import Alternative, Alternatives, Priced


class Quoter(Protocol):
    """What a choice must know of an `OpenZone`."""

    @property
    def name(self) -> str:
        """Unique in the service."""
        ...

    @property
    def kind(self) -> str:
        """Of which kind it is."""
        ...

    def unsupported_reason(self, request: JobRequest) -> str | None:
        """Why it cannot take a job; none: it may."""
        ...

    async def quote(self, who: Principal, request: JobRequest) -> Priced:
        """What a job would cost here."""
        ...


Q = TypeVar("Q", bound=Quoter)


@dataclass(frozen=True, slots=True)
class Choice(Generic[Q]):
    """A zone, and what it was chosen from.

    Attributes:
        zone: the default one for a job.
        priced: what it offers; none: it offers nothing, and will say why.
        alternatives: what all zones said that were asked.
    """

    zone: Q
    priced: Priced | None
    alternatives: Alternatives


async def choose(
    zones: Sequence[Q], who: Principal, request: JobRequest, paused: Collection[str]
) -> Choice[Q]:
    """The default zone for a job.

    Args:
        zones: of the job's model, in the order of the settings; two at least.
        who: asks.
        request: for the job; what it bids does not count.
        paused: names of zones that take no bids now.

    Raises:
        InputError: if no zone takes the job, for reasons that differ: with all of them.
    """
    asked = await asyncio.gather(*(_ask(zone, who, request, paused) for zone in zones))
    alternatives = tuple(alternative for alternative, _ in asked)
    places = [place for place, one in enumerate(alternatives) if one.outlook is not None]
    if places:
        place = _cheapest(alternatives, places, request.market.risk)
    else:
        place = _first_to_answer(zones, alternatives, [priced for _, priced in asked], paused)
    return Choice(zones[place], asked[place][1], alternatives)


def _first_to_answer(
    zones: Sequence[Q],
    alternatives: Alternatives,
    priced: Sequence[Priced | None],
    paused: Collection[str],
) -> int:
    """Where a job that no zone offers anything for gets its answer.

    Raises:
        InputError: if each zone refuses it, for reasons that differ.
    """
    for place, found in enumerate(priced):
        if found is not None:
            return place
    open_places = [place for place, zone in enumerate(zones) if zone.name not in paused]
    reasons = [alternatives[place] for place in open_places]
    if len({one.unavailable_reason for one in reasons}) > 1:
        said = "; ".join(f"{one.zone} ({one.kind}): {one.unavailable_reason}" for one in reasons)
        raise InputError(
            "market", f"no zone takes this job: {said}", "a job that one of them takes"
        )
    # It is asked once more, and says what is wrong as if it stood alone.
    return open_places[0] if open_places else 0


def _cheapest(alternatives: Alternatives, places: list[int], limit: float) -> int:
    def rank(place: int) -> tuple[object, ...]:
        outlook = alternatives[place].outlook
        assert outlook is not None
        excess = max(0.0, outlook.risk - limit)
        return excess, outlook.cost, place

    return min(places, key=rank)


async def _ask(
    zone: Quoter, who: Principal, request: JobRequest, paused: Collection[str]
) -> tuple[Alternative, Priced | None]:
    """What a zone says of a job."""
    why = "it takes no bids now" if zone.name in paused else zone.unsupported_reason(request)
    priced = None
    if why is None:
        try:
            priced = await zone.quote(who, request)
        # A zone whose data process failed, or that makes too many estimates, is out, no more.
        except (InputError, DataError, QuotaExceededError) as error:
            why = str(error)
    outlook = None if priced is None else priced.offer.summary
    if priced is not None and outlook is None:
        why = priced.offer.unavailable_reason
    return Alternative(zone.name, zone.kind, outlook, why), priced
