"""Quotes: offers that were shown, so that a line of them can be accepted. They hold nothing.

There is room for so many, and for so many cells in all of their plans. Where that is not enough,
who has the most in it loses the oldest: asking again and again costs nobody else a quote.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from auctune.domain import AuctuneError, InputError
from auctune.service.identifiers import new_id
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.training import Training
from auctune.service.zones.offer import NO_CHOICE, Alternatives, Offer, Priced

SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Quote:
    """An offer that was shown.

    Attributes:
        id: names it.
        owner: who asked.
        zone: where.
        kind: of the zone.
        request: what was asked about; its bid does not count.
        training: what it would train, seed and all.
        offer: of the zone.
        deadline: unix time up to which it looked.
        at: unix time.
        alternatives: what zones said that were asked as well.
        notes: what the data's owner should know of them.
    """

    id: str
    owner: str
    zone: str
    kind: str
    request: JobRequest
    training: Training
    offer: Offer
    deadline: float
    at: float
    alternatives: Alternatives = NO_CHOICE
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Cells in all of its plans, and one for itself and for each alternative."""
        return 1 + self.offer.size + len(self.alternatives)


@dataclass(frozen=True, slots=True)
class QuotesParams:
    """How much room there is for quotes.

    Attributes:
        quotes: how many are kept.
        cells: how large all of them are; a hundred bytes or so each.
    """

    quotes: int = 10_000
    cells: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("quotes", "cells"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)}", "a whole number >= 1")


class QuoteChangedError(AuctuneError):
    """A line of a quote is not to be had any more.

    Attributes:
        quote: what is to be had now.
    """

    def __init__(self, why: str, quote: Quote) -> None:
        super().__init__(why)
        self.quote = quote


class Quotes:
    """Quotes of the last hour; in memory, as they promise nothing.

    Args:
        now: tells unix time.
        params: how much room there is.
    """

    def __init__(self, now: Callable[[], float], params: QuotesParams | None = None) -> None:
        self._now = now
        self._params = params or QuotesParams()
        # The oldest first, in both.
        self._kept: OrderedDict[str, Quote] = OrderedDict()
        self._of: defaultdict[str, OrderedDict[str, Quote]] = defaultdict(OrderedDict)
        self._sizes: Counter[str] = Counter()

    def add(
        self,
        owner: str,
        zone: str,
        kind: str,
        request: JobRequest,
        priced: Priced,
        alternatives: Alternatives = NO_CHOICE,
    ) -> Quote:
        """Keep what was shown."""
        name = new_id("quote")
        quote = Quote(
            name,
            owner,
            zone,
            kind,
            request,
            priced.training,
            priced.offer,
            priced.deadline,
            self._now(),
            alternatives,
            priced.notes,
        )
        self._drop_old()
        self._kept[name] = self._of[owner][name] = quote
        self._sizes[owner] += quote.size
        while len(self._kept) > self._params.quotes or self._sizes.total() > self._params.cells:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self._drop(next(iter(self._of[largest].values())))
        return quote

    def replace(self, quote: Quote, priced: Priced) -> Quote:
        """Keep what is shown now in place of a quote."""
        return self.add(quote.owner, quote.zone, quote.kind, quote.request, priced)

    def forget(self, owner: str) -> None:
        """Keep nothing of an owner's."""
        for quote in list(self._of.get(owner, {}).values()):
            self._drop(quote)

    def get(self, name: str, owner: str) -> Quote | None:
        """A quote of this owner's that is not too old."""
        quote = self._kept.get(name)
        if quote is None or quote.owner != owner or self._now() - quote.at > SECONDS:
            return None
        return quote

    def _drop_old(self) -> None:
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if self._now() - oldest.at <= SECONDS:
                return
            self._drop(oldest)

    def _drop(self, quote: Quote) -> None:
        del self._kept[quote.id], self._of[quote.owner][quote.id]
        self._sizes[quote.owner] -= quote.size
        if not self._of[quote.owner]:
            del self._of[quote.owner], self._sizes[quote.owner]


def known_quote(quotes: Quotes, accepted: Acceptance, owner: str) -> Quote:
    """The quote that a request accepts a line of.

    Raises:
        InputError: if there is none of this owner's.
    """
    name = accepted.market.quote or ""
    quote = quotes.get(name, owner)
    if quote is None:
        found = f"{name!r} is unknown or too old"
        raise InputError("market.quote", found, "a quote of the last hour")
    return quote
