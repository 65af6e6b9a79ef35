"""Offers of zones for a job; and quotes, which are offers to users that can be accepted.

Quotes reserve nothing. Their number, and that of cells in all of their plans, is limited. When a
limit is reached, the owner with the most cells loses the oldest quote, so one user cannot evict the
quotes of others.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from auctune.domain import AuctuneError, InputError, Money
from auctune.service.identifiers import new_id
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.training import Training


@dataclass(frozen=True, slots=True)
class QuoteSummary:
    """Cost and finish of a job in a zone, by which zones of all kinds are compared.

    Attributes:
        cost: binding price, or the cost that is not exceeded with probability 0.9.
        finish: unix time by which the job is expected to be done.
        risk: probability in [0, 1] that it is late or not done.
    """

    cost: Money
    finish: float
    risk: float


class Offer(Protocol):
    """Offer of a zone for a job: a menu, or an estimate."""

    @property
    def size(self) -> int:
        """Memory that it takes, in cells of plans."""
        ...

    @property
    def summary(self) -> QuoteSummary | None:
        """Cost and finish of the cheapest plan, or None if there is none."""
        ...

    @property
    def unavailable_reason(self) -> str | None:
        """Reason why there is no summary, or None."""
        ...

    def to_response(self) -> dict[str, Any]:
        """Return the fields of a quote's response that depend on its kind: lines, estimate."""
        ...


@dataclass(frozen=True, slots=True)
class ZoneQuote:
    """Offer of a zone for a job: a menu or an estimate.

    `deadline` is the latest finish that was considered; `notes` are about the data.
    """

    training: Training
    deadline: float
    offer: Offer
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ZoneQuoteSummary:
    """Offer of one of several zones, as it is recorded with the job, or why there is none."""

    zone: str
    kind: str
    outlook: QuoteSummary | None
    unavailable_reason: str | None

    def to_record(self) -> dict[str, Any]:
        found = self.outlook
        return {
            "zone": self.zone,
            "kind": self.kind,
            "cost": None if found is None else str(found.cost),
            "finish": None if found is None else found.finish,
            "risk": None if found is None else found.risk,
            "unavailable_reason": self.unavailable_reason,
        }


Alternatives = tuple[ZoneQuoteSummary, ...]
"""Offers of all zones that a job was routed among; empty if the request named its zone."""


NO_ALTERNATIVES: Alternatives = ()


QUOTE_TTL_SECONDS = 3600.0
MAX_QUOTES = 10_000
MAX_CELLS = 1_000_000
"""A cell takes about 100 bytes."""


@dataclass(frozen=True, slots=True)
class Quote:
    """An offer to a user, for a request whose bid is ignored.

    `deadline` is the latest finish that was considered; `alternatives` are the offers of all zones
    of the model, if several made one.
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
    alternatives: Alternatives = NO_ALTERNATIVES
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Cells in all of its plans, plus one for the quote and for each alternative."""
        return 1 + self.offer.size + len(self.alternatives)


class QuoteChangedError(AuctuneError):
    """A line of a quote is no longer available; `quote` is the offer that holds now."""

    def __init__(self, why: str, quote: Quote) -> None:
        super().__init__(why)
        self.quote = quote


class QuoteStore:
    """Quotes of the last hour; in memory, as they are not binding.

    It keeps `max_quotes` quotes, of `max_cells` cells together.
    """

    def __init__(
        self,
        now: Callable[[], float],
        max_quotes: int = MAX_QUOTES,
        max_cells: int = MAX_CELLS,
    ) -> None:
        self._now = now
        self._max_quotes, self._max_cells = max_quotes, max_cells
        # Oldest first, in both.
        self._quotes: OrderedDict[str, Quote] = OrderedDict()
        self._by_owner: defaultdict[str, OrderedDict[str, Quote]] = defaultdict(OrderedDict)
        self._sizes: Counter[str] = Counter()

    def add(
        self,
        owner: str,
        zone: str,
        kind: str,
        request: JobRequest,
        priced: ZoneQuote,
        alternatives: Alternatives = NO_ALTERNATIVES,
    ) -> Quote:
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
        self._quotes[name] = self._by_owner[owner][name] = quote
        self._sizes[owner] += quote.size
        while len(self._quotes) > self._max_quotes or self._sizes.total() > self._max_cells:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self._drop(next(iter(self._by_owner[largest].values())))
        return quote

    def replace(self, quote: Quote, priced: ZoneQuote) -> Quote:
        """Store the current offer for the request of an earlier quote."""
        return self.add(quote.owner, quote.zone, quote.kind, quote.request, priced)

    def forget(self, owner: str) -> None:
        for quote in list(self._by_owner.get(owner, {}).values()):
            self._drop(quote)

    def get(self, name: str, owner: str) -> Quote | None:
        """Return a quote of this owner; None if there is none, or it has expired."""
        quote = self._quotes.get(name)
        if quote is None or quote.owner != owner or self._now() - quote.at > QUOTE_TTL_SECONDS:
            return None
        return quote

    def _drop_old(self) -> None:
        while self._quotes:
            oldest = next(iter(self._quotes.values()))
            if self._now() - oldest.at <= QUOTE_TTL_SECONDS:
                return
            self._drop(oldest)

    def _drop(self, quote: Quote) -> None:
        del self._quotes[quote.id], self._by_owner[quote.owner][quote.id]
        self._sizes[quote.owner] -= quote.size
        if not self._by_owner[quote.owner]:
            del self._by_owner[quote.owner], self._sizes[quote.owner]


def require_quote(quotes: QuoteStore, accepted: Acceptance, owner: str) -> Quote:
    """Return the owner's quote that a request accepts a line of."""
    name = accepted.market.quote or ""
    quote = quotes.get(name, owner)
    if quote is None:
        found = f"{name!r} is unknown or too old"
        raise InputError("market.quote", found, "a quote of the last hour")
    return quote
