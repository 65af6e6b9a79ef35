"""Quotes: menus that were shown, so that a line of them can be accepted. They hold nothing."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from auctune.domain import PriceMenu
from auctune.service.identifiers import new_id
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.training import Training

SECONDS = 3600.0
_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Quote:
    """A menu that was shown.

    Attributes:
        id: names it.
        owner: who asked.
        zone: where.
        request: what was asked about; its bid does not count.
        training: what it would train, seed and all.
        menu: the lines.
        deadline: unix time up to which it looked.
        at: unix time.
    """

    id: str
    owner: str
    zone: str
    request: JobRequest
    training: Training
    menu: PriceMenu
    deadline: float
    at: float


class Quotes:
    """Quotes of the last hour; in memory, as they promise nothing.

    Args:
        now: tells unix time.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[str, Quote] = OrderedDict()

    def add(
        self,
        owner: str,
        zone: str,
        request: JobRequest,
        training: Training,
        menu: PriceMenu,
        deadline: float,
    ) -> Quote:
        """Keep a menu."""
        name = new_id("quote")
        quote = Quote(name, owner, zone, request, training, menu, deadline, self._now())
        self._kept[quote.id] = quote
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return quote

    def forget(self, owner: str) -> None:
        """Keep nothing of an owner's."""
        for name in [name for name, quote in self._kept.items() if quote.owner == owner]:
            del self._kept[name]

    def get(self, name: str, owner: str) -> Quote | None:
        """A quote of this owner's that is not too old."""
        quote = self._kept.get(name)
        if quote is None or quote.owner != owner or self._now() - quote.at > SECONDS:
            return None
        return quote
