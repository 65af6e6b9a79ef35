"""Routing of requests for jobs to zones, and their submission.

A request that names a zone, or whose model only one zone has, goes there. For any other one all
zones with its model are quoted. The default zone is the cheapest, by the cost that is not exceeded
with probability 0.9, among those within the request's limit on the risk of being late; if none is
within it, the one with the least risk. Ties go to the first in the settings.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from auctune.domain import AuctuneError, InputError
from auctune.engine.data.client import DataError
from auctune.engine.unix_time import Now, SteadyClock, to_rfc3339
from auctune.service.accounts.limits import LimitReachedError, OpenJobs
from auctune.service.accounts.registry import Principal, Sources, resolve
from auctune.service.config.wandb import WandbConfig
from auctune.service.datasets.training_data import StartModels
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.identifiers import new_id
from auctune.service.jobs.quotes import (
    NO_ALTERNATIVES,
    Alternatives,
    Quote,
    QuoteStore,
    ZoneQuote,
    ZoneQuoteSummary,
    require_quote,
)
from auctune.service.jobs.request import PREFIX, Acceptance, IdempotencyKey, JobRequest
from auctune.service.jobs.terms import missing_terms
from auctune.service.storage.committer import retry_outages
from auctune.service.storage.queries import JobReadModel
from auctune.service.tasks import TaskSet
from auctune.service.zones.core.gateway import AnyGateway


class ZonePausedError(AuctuneError):
    """An operator has paused the zone."""


@dataclass(frozen=True, slots=True)
class ZoneChoice:
    """The zone of a job, its quote if there is one, and the offers of all zones if several."""

    zone: AnyGateway
    priced: ZoneQuote | None = None
    alternatives: Alternatives = NO_ALTERNATIVES


async def choose_zone(
    zones: Sequence[AnyGateway], who: Principal, request: JobRequest, paused: Collection[str]
) -> ZoneChoice:
    """Return the default zone for a job among those with its model, in the order of the settings.

    The bid does not count. Zones in `paused` accept no bids now.

    Raises:
        InputError: with the reasons of all zones, if none takes the job and the reasons differ.
    """
    quotes = await asyncio.gather(*(_quote(zone, who, request, paused) for zone in zones))
    alternatives = tuple(summary for summary, _ in quotes)
    able = [index for index, one in enumerate(alternatives) if one.outlook is not None]
    if able:
        index = _cheapest(alternatives, able, request.market.risk)
    else:
        capable = [zone.unsupported_reason(request) is None for zone in zones]
        index = _responding_zone(alternatives, [one for _, one in quotes], paused, capable)
    return ZoneChoice(zones[index], quotes[index][1], alternatives)


def _cheapest(alternatives: Alternatives, able: list[int], limit: float) -> int:
    def rank(index: int) -> tuple[object, ...]:
        outlook = alternatives[index].outlook
        assert outlook is not None
        excess = max(0.0, outlook.risk - limit)
        return excess, outlook.cost, index

    return min(able, key=rank)


def _responding_zone(
    alternatives: Alternatives,
    priced: Sequence[ZoneQuote | None],
    paused: Collection[str],
    capable: Sequence[bool],
) -> int:
    """Return the index of the zone that refuses a job which no zone can take.

    Where all zones of a kind that could take it (`capable`) refuse it for one reason, such as its
    data, that is the answer: what zones of other kinds would need does not help.
    """
    for index, one in enumerate(priced):
        if one is not None:
            return index
    candidates = [index for index, one in enumerate(alternatives) if one.zone not in paused]
    asked = [index for index in candidates if capable[index]] or candidates
    if len({alternatives[index].unavailable_reason for index in asked}) > 1:
        reasons = [alternatives[index] for index in candidates]
        listed = "; ".join(f"{one.zone} ({one.kind}): {one.unavailable_reason}" for one in reasons)
        raise InputError(
            "market", f"no zone accepts this job: {listed}", "a job that one of them accepts"
        )
    # It is quoted again, and raises its error as if it were the only zone.
    return asked[0] if asked else 0


async def _quote(
    zone: AnyGateway, who: Principal, request: JobRequest, paused: Collection[str]
) -> tuple[ZoneQuoteSummary, ZoneQuote | None]:
    why = "it takes no bids now" if zone.name in paused else zone.unsupported_reason(request)
    priced = None
    if why is None:
        try:
            priced = await zone.quote(who, request)
        # A zone whose data process failed, or that makes too many estimates, is left out.
        except (InputError, DataError, LimitReachedError) as error:
            why = str(error)
    outlook = None if priced is None else priced.offer.summary
    if priced is not None and outlook is None:
        why = priced.offer.unavailable_reason
    return ZoneQuoteSummary(zone.name, zone.kind, outlook, why), priced


class ClockError(AuctuneError):
    """The machine's clock is wrong, or was: no bids are taken."""


def clock_fault(now: Now) -> str | None:
    """Return what is wrong with the machine's clock, or None."""
    seconds = now.seconds_off if isinstance(now, SteadyClock) else 0.0
    if seconds == 0.0:
        return None
    direction, remedy = ("forward", "back") if seconds > 0 else ("back", "forward again")
    return (
        f"the machine's clock has jumped {abs(seconds):,.0f} s {direction}; the service keeps the "
        f"old time and takes no bids: set the clock {remedy}, or restart the service if the new "
        "time is right"
    )


class FutureLogs:
    """Zones whose logs end later than the clock says: it was ahead, and has been corrected.

    Until the clock has reached that time, such a zone takes no bids and trains nothing: its slots
    up to then are over.

    Args:
        ends: time of the newest event, by zone.
    """

    def __init__(self, ends: Mapping[str, float], now: Now) -> None:
        self._ends = {zone: end for zone, end in ends.items() if end > now()}
        self._now = now

    def fault(self, zone: str) -> str | None:
        """Return why a zone takes no bids now, or None."""
        end, now = self._ends.get(zone, 0.0), self._now()
        if end <= now:
            return None
        return (
            f"the log of zone {zone} ends at {to_rfc3339(end)}, and the machine's clock is at "
            f"{to_rfc3339(now)}: the zone takes no bids until the clock has reached the log"
        )

    def any_fault(self) -> str | None:
        """Return the fault of one of the zones, or None."""
        return next(filter(None, map(self.fault, self._ends)), None)


class SubmissionService:
    """Entry point of requests for quotes and jobs.

    Args:
        check: raises an error while the service accepts no bids.
        default_terms: returns the default terms of a principal, by owner.
        aliases: other names of models, each for the base of a zone.
        wandb: what jobs may be logged to.
        future_logs: zones that take no bids until the clock has reached their logs.

    Attributes:
        paused: names of zones that accept no bids now.
    """

    def __init__(
        self,
        zones: Mapping[str, AnyGateway],
        open_jobs: OpenJobs,
        quotes: QuoteStore,
        files: FileRepository,
        start_models: StartModels,
        check: Callable[[], None],
        default_terms: Callable[[Principal], Sources],
        aliases: Mapping[str, str],
        wandb: WandbConfig,
        future_logs: FutureLogs,
    ) -> None:
        self.paused: set[str] = set()
        self._zones = zones
        self._open_jobs = open_jobs
        self._quotes = quotes
        self._files = files
        self._start_models = start_models
        self._check = check
        self._default_terms = default_terms
        self._aliases = aliases
        self._wandb = wandb
        self._future_logs = future_logs
        self._tasks = TaskSet()
        self._by_base: dict[str, list[AnyGateway]] = {}
        for zone in zones.values():
            self._by_base.setdefault(zone.base, []).append(zone)

    async def submit(
        self, who: Principal, request: JobRequest | Acceptance, key: IdempotencyKey | None
    ) -> JobReadModel:
        """Submit a job; return its row once that is committed.

        Raises:
            InputError: if no zone can decide on it.
            QuoteChangedError: if it accepts a quote that is no longer available.
            LimitReachedError: if its owner has too many open jobs.
            ZonePausedError: if its zone accepts no bids.
            ClockError: while the machine's clock is wrong.
            DiskFullError: while the service's disk is nearly full.
        """
        self._check()
        job = new_id("ftjob")
        with self._open_jobs.reserve(who.user, job):
            if isinstance(request, Acceptance):
                self._wandb.check_request(request.integrations)
                if request.model is not None:
                    model = self.resolve_alias(request.model)
                    request = request.model_copy(update={"model": model})
                quote = require_quote(self._quotes, request, who.user)
                await self._check_expiry(quote.request)
                zone = self._open_zone(self._zones[quote.zone])
                return await zone.accept(job, who, request, quote, key)
            request = await self._complete(who, request)
            choice = await self._choose(who, request)
            zone = self._open_zone(choice.zone)
            return await zone.submit(job, who, request, key, choice.alternatives)

    async def preview(self, who: Principal, request: JobRequest) -> JobReadModel:
        """Return a job as it would be decided on, without recording anything."""
        request = await self._complete(who, request)
        choice = await self._choose(who, request)
        return await choice.zone.preview(who, request, choice.alternatives)

    async def quote(self, who: Principal, request: JobRequest) -> Quote:
        """Return and store an offer for a job; a bid and a deadline may be missing."""
        request = await self._complete(who, request)
        choice = await self._choose(who, request)
        zone = choice.zone
        priced = choice.priced or await zone.quote(who, request)
        return self._quotes.add(
            who.user, zone.name, zone.kind, request, priced, choice.alternatives
        )

    def resolve_alias(self, model: str) -> str:
        """Return the base that a model name of a request stands for, or the name itself."""
        return self._aliases.get(model, model)

    def preload(self, file: FileRecord) -> None:
        """Inspect a new upload for all zones in the background, so that bids need not wait."""
        self._tasks.spawn(self._preload(file))

    async def resume(self) -> None:
        """Inspect the uploads that had not been inspected when the service stopped."""
        for file in await self._files.unexamined():
            self.preload(file)

    async def close(self) -> None:
        """Stop background work, also that of zones; it continues after the next start."""
        await self._tasks.close()
        for zone in self._zones.values():
            await zone.close()

    async def _complete(self, who: Principal, request: JobRequest) -> JobRequest:
        """Return a request with its model looked up, and with the default terms that it lacks."""
        self._wandb.check_request(request.integrations)
        if request.model.startswith(PREFIX):
            start = await self._start_models.find(request.model, who.user)
            request = request.starting_from(start)
        elif request.model in self._aliases:
            request = request.for_base(self.resolve_alias(request.model))
        await self._check_expiry(request)
        return self._with_default_terms(who, request)

    async def _check_expiry(self, request: JobRequest) -> None:
        """Refuse files that have expired; a job that was submitted before keeps them."""
        named = {
            "training_file": request.training_file,
            "validation_file": request.validation_file,
            "model": None if request.start is None else request.start.file,
            **{f"market.sites.{site}": file for site, file in (request.market.sites or {}).items()},
        }
        for place, file in named.items():
            if file is not None:
                await self._files.check_not_expired(file, place)

    def _with_default_terms(self, who: Principal, request: JobRequest) -> JobRequest:
        missing = missing_terms(request.market)
        sources = self._default_terms(who) if missing else ()
        found = resolve(sources, missing)
        chosen = found.get("zone")
        if chosen is not None:
            zone = self._zones.get(chosen.value)
            if zone is None:
                reason = f"{chosen.value!r}, the default of {chosen.of}, is unknown"
                raise InputError("market.zone", reason, f"one of {', '.join(self._zones)}")
            if zone.base != request.base:
                # A default chooses among the zones of a model, and not the model.
                del found["zone"]
        return request.with_default_terms(found) if found else request

    async def _choose(self, who: Principal, request: JobRequest) -> ZoneChoice:
        zones = self._candidates(request)
        if len(zones) == 1:
            return ZoneChoice(zones[0])
        return await choose_zone(zones, who, request, self.paused)

    def _candidates(self, request: JobRequest) -> Sequence[AnyGateway]:
        """Return the zone that a request names, or all zones with its model."""
        name = request.market.zone
        if name is None:
            found = self._by_base.get(request.base, [])
        else:
            zone = self._zones.get(name)
            if zone is None:
                known = ", ".join(self._zones)
                raise InputError("market.zone", f"{name!r} is unknown", f"one of {known}")
            found = [zone] if zone.base == request.base else []
        if not found:
            names = ", ".join((*self._by_base, *self._aliases))
            expected = f"one of {names}; an operator adds other names to [model_aliases]"
            raise InputError("model", f"{request.model!r} is not offered", expected)
        ready = [zone for zone in found if self._future_logs.fault(zone.name) is None]
        return ready or [self._open_zone(found[0])]

    def _open_zone(self, zone: AnyGateway) -> AnyGateway:
        if (fault := self._future_logs.fault(zone.name)) is not None:
            raise ClockError(fault)
        if zone.name in self.paused:
            raise ZonePausedError(f"zone {zone.name} takes no bids now")
        return zone

    async def _preload(self, file: FileRecord) -> None:
        zones = self._zones.values()

        async def examine() -> bool:
            return any(await asyncio.gather(*(zone.preload(file) for zone in zones)))

        if not await retry_outages(examine):
            kinds = ", ".join(dict.fromkeys(zone.kind for zone in zones))
            error = InputError(
                "file",
                f"holds data that no zone here trains on (kinds of zones here: {kinds})",
                "rows of text",
            )
            await self._files.set_error(file.id, str(error))
