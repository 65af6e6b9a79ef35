"""All vendors asked for one data set at once, with one deadline for the whole round.

Who has not given a good offer by then is out of this auction, and asked again in the next.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from auctune.domain import Quote
from auctune.service.vendors.data_facts import DataFacts
from auctune.service.vendors.fault import VendorError
from auctune.service.vendors.offer import Decline, Offer

_log = structlog.get_logger(__name__)


class QuotingVendor(Protocol):
    """What a round asks: `HttpVendor`, or another that answers without blocking."""

    @property
    def name(self) -> str:
        """Unique in the round."""
        ...

    async def quote(self, data: DataFacts, seconds: float) -> Offer | Decline:
        """An offer or none, within `seconds`.

        Raises:
            VendorError: if there is no good answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class QuoteRound:
    """What came of it, each in the order of the vendors.

    Attributes:
        offers: to choose from.
        declines: who did not want to.
        absences: who is out of this auction, and why.
    """

    offers: tuple[Offer, ...]
    declines: tuple[Decline, ...]
    absences: tuple[VendorError, ...]

    def to_quotes(self, slot_seconds: float) -> tuple[Quote, ...]:
        """The offers as an auction takes them."""
        return tuple(offer.to_quote(slot_seconds) for offer in self.offers)


async def ask_vendors(
    vendors: Sequence[QuotingVendor], data: DataFacts, seconds: float
) -> QuoteRound:
    """Ask all vendors at the same time; done within `seconds`, or as soon as all have answered."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(vendor, data, seconds)) for vendor in vendors]
    answers = [task.result() for task in tasks]
    return QuoteRound(
        tuple(answer for answer in answers if isinstance(answer, Offer)),
        tuple(answer for answer in answers if isinstance(answer, Decline)),
        tuple(answer for answer in answers if isinstance(answer, VendorError)),
    )


async def _ask(
    vendor: QuotingVendor, data: DataFacts, seconds: float
) -> Offer | Decline | VendorError:
    try:
        answer = await vendor.quote(data, seconds)
    except VendorError as error:
        _log.warning(
            "vendor_absent", vendor=vendor.name, fault=str(error.fault), detail=error.detail
        )
        return error
    if isinstance(answer, Decline):
        _log.info("vendor_declined", vendor=vendor.name, reason=answer.reason)
    return answer
