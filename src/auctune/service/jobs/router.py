"""Routes requests for jobs to zones.

All of them are asked what it would cost. The default is the cheapest, by the cost that is not
exceeded with a probability of 0.9, among those that keep the owner's limit on the risk of being
late; if none keeps it, the one with the least risk. Of equals the first in the settings.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import DataError
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import JobQuota, QuotaExceededError
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.identifiers import new_id
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.quotes import Quote, QuoteStore, require_quote
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.gateway import AnyGateway
from auctune.service.zones.core.offers import (
    NO_ALTERNATIVES,
    Alternatives,
    ZoneQuote,
    ZoneQuoteSummary,
)
from auctune.service.zones.core.read_model import JobReadModel


class Quoter(Protocol):
    """What a choice must know of an `AnyGateway`."""

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

    async def quote(self, who: Principal, request: JobRequest) -> ZoneQuote:
        """What a job would cost here."""
        ...


Q = TypeVar("Q", bound=Quoter)


@dataclass(frozen=True, slots=True)
class ZoneChoice(Generic[Q]):
    """A zone, and what it was chosen from.

    Attributes:
        zone: the default one for a job.
        priced: what it offers; none: it offers nothing, and will say why.
        alternatives: what all zones said that were asked.
    """

    zone: Q
    priced: ZoneQuote | None
    alternatives: Alternatives


async def choose_zone(
    zones: Sequence[Q], who: Principal, request: JobRequest, paused: Collection[str]
) -> ZoneChoice[Q]:
    """The default zone for a job.

    Args:
        zones: of the job's model, in the order of the settings; two at least.
        who: asks.
        request: for the job; what it bids does not count.
        paused: names of zones that take no bids now.

    Raises:
        InputError: if no zone takes the job, for reasons that differ: with all of them.
    """
    asked = await asyncio.gather(*(_quote_zone(zone, who, request, paused) for zone in zones))
    alternatives = tuple(alternative for alternative, _ in asked)
    places = [place for place, one in enumerate(alternatives) if one.outlook is not None]
    if places:
        place = _cheapest(alternatives, places, request.market.risk)
    else:
        place = _first_to_answer(zones, alternatives, [priced for _, priced in asked], paused)
    return ZoneChoice(zones[place], asked[place][1], alternatives)


def _first_to_answer(
    zones: Sequence[Q],
    alternatives: Alternatives,
    priced: Sequence[ZoneQuote | None],
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


async def _quote_zone(
    zone: Quoter, who: Principal, request: JobRequest, paused: Collection[str]
) -> tuple[ZoneQuoteSummary, ZoneQuote | None]:
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
    return ZoneQuoteSummary(zone.name, zone.kind, outlook, why), priced


# Candidates: the zones that a request may go to, and whether they accept bids now.


class ZonePausedError(AuctuneError):
    """An operator has the zone take no bids for now."""


class ZoneRouter:
    """Zones that are open.

    Args:
        zones: by name, in the order of the settings.

    Attributes:
        paused: names of zones that take no bids for now.
    """

    def __init__(self, zones: Mapping[str, AnyGateway]) -> None:
        self.paused: set[str] = set()
        self._zones = zones
        self._of_base: dict[str, list[AnyGateway]] = {}
        for zone in zones.values():
            self._of_base.setdefault(zone.base, []).append(zone)

    def __iter__(self) -> Iterator[AnyGateway]:
        return iter(self._zones.values())

    def __len__(self) -> int:
        return len(self._zones)

    def candidates(self, request: JobRequest) -> Sequence[AnyGateway]:
        """The zones that a request may mean: the one that it names, or all that have its model.

        Raises:
            InputError: if there is none of this name, or it has another base.
        """
        name = request.market.zone
        if name is None:
            found = self._of_base.get(request.model, [])
        else:
            zone = self._zones.get(name)
            if zone is None:
                known = ", ".join(self._zones)
                raise InputError("market.zone", f"{name!r} is unknown", f"one of {known}")
            found = [zone] if zone.base == request.model else []
        if not found:
            bases = ", ".join(self._of_base)
            raise InputError("model", f"{request.model!r} is not offered", f"one of {bases}")
        return found

    def get(self, name: str) -> AnyGateway:
        """The zone of this name, which is there."""
        return self._zones[name]

    def check_open(self, zone: AnyGateway) -> None:
        """That a zone takes bids.

        Raises:
            ZonePausedError: if it does not.
        """
        if zone.name in self.paused:
            raise ZonePausedError(f"zone {zone.name} takes no bids now")


# Submissions.
#
# A request that names a zone, or whose model one zone alone has, goes there at once. For any other
# one all zones of its model are asked first, and what they said stays with the job.


class SubmissionService:
    """Takes requests for jobs.

    Args:
        zones: by name.
        open_jobs: how many there are.
        quotes: that were shown.
        library: of files.
        check: raises an error while the service takes no bids.
    """

    def __init__(
        self,
        zones: Mapping[str, AnyGateway],
        open_jobs: JobQuota,
        quotes: QuoteStore,
        library: FileRepository,
        check: Callable[[], None],
    ) -> None:
        self._check = check
        self._library = library
        self._open_jobs = open_jobs
        self._zones = ZoneRouter(zones)
        self._quotes = quotes
        self._background = TaskSet()

    @property
    def paused(self) -> set[str]:
        """Names of zones that take no bids for now."""
        return self._zones.paused

    async def submit(
        self, who: Principal, request: JobRequest | Acceptance, reply: IdempotencyKey | None
    ) -> JobReadModel:
        """A job, as it stands once this is on record.

        Raises:
            InputError: if it is no job that could be decided on.
            QuoteChangedError: if it accepts a line that is not to be had.
            TooManyError: if its owner has too many open jobs.
            ZonePausedError: if its zone takes no bids.
            ClockError: while the machine's clock is wrong.
            DiskFullError: while the service's disk is nearly full.
        """
        self._check()
        job = new_id("ftjob")
        with self._open_jobs.reserve(who.user, job):
            if isinstance(request, Acceptance):
                return await self._accept(job, who, request, reply)
            zones = self._zones.candidates(request)
            zone, alternatives = zones[0], NO_ALTERNATIVES
            if len(zones) > 1:
                choice = await choose_zone(zones, who, request, self.paused)
                zone, alternatives = choice.zone, choice.alternatives
            self._zones.check_open(zone)
            return await zone.submit(job, who, request, reply, alternatives)

    async def preview(self, who: Principal, request: JobRequest) -> JobReadModel:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: as `submit`.
        """
        zones = self._zones.candidates(request)
        if len(zones) == 1:
            return await zones[0].preview(who, request, NO_ALTERNATIVES)
        choice = await choose_zone(zones, who, request, self.paused)
        return await choice.zone.preview(who, request, choice.alternatives)

    async def quote(self, who: Principal, request: JobRequest) -> Quote:
        """What a job would cost.

        Raises:
            InputError: as `submit`; a bid and a deadline may be left out.
        """
        zones = self._zones.candidates(request)
        if len(zones) == 1:
            return self._store_quote(who, zones[0], request, await zones[0].quote(who, request), ())
        choice = await choose_zone(zones, who, request, self.paused)
        priced = choice.priced or await choice.zone.quote(who, request)
        return self._store_quote(who, choice.zone, request, priced, choice.alternatives)

    def preload(self, file: FileRecord) -> None:
        """Look at a new upload for all zones, so that bids for it need not wait."""
        self._background.spawn(self._look_at(file))

    async def resume(self) -> None:
        """After a start, look at the uploads that had not been looked at when the service ended."""
        for file in await self._library.unexamined():
            self.preload(file)

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()
        for zone in self._zones:
            await zone.close()

    def _store_quote(
        self,
        who: Principal,
        zone: AnyGateway,
        request: JobRequest,
        priced: ZoneQuote,
        alternatives: Alternatives,
    ) -> Quote:
        return self._quotes.add(who.user, zone.name, zone.kind, request, priced, alternatives)

    async def _look_at(self, file: FileRecord) -> None:
        looks = await asyncio.gather(*(zone.preload(file) for zone in self._zones))
        if not any(looks):
            known = ", ".join(dict.fromkeys(zone.kind for zone in self._zones))
            error = InputError(
                "file",
                f"holds data that no zone here trains on (kinds of zones here: {known})",
                "rows of text (JSONL); or for zones of kind edge, images (.npz)",
            )
            await self._library.set_error(file.id, str(error))

    async def _accept(
        self, job: str, who: Principal, accepted: Acceptance, reply: IdempotencyKey | None
    ) -> JobReadModel:
        quote = require_quote(self._quotes, accepted, who.user)
        zone = self._zones.get(quote.zone)
        self._zones.check_open(zone)
        return await zone.accept(job, who, accepted, quote, reply)
