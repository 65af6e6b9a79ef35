"""From a request for a job to its decision: files are looked at, the bid is read, the zone decides.

Where the files were looked at before, the decision is the answer. Where they were not, or a vendor
must be asked, the job is on record as `validating_files` first, and decided as soon as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from auctune.domain import AuctuneError, InputError, Money, parse_money
from auctune.domain.money import ZERO
from auctune.run.data.client import DataError
from auctune.service.access.key import Principal
from auctune.service.access.open_jobs import OpenJobs
from auctune.service.access.spending import Spending
from auctune.service.access.turns import Turns
from auctune.service.background import Background
from auctune.service.files.library import Library, owned
from auctune.service.files.record import FileRecord
from auctune.service.identifiers import new_id
from auctune.service.jobs.acceptance import (
    QuoteChangedError,
    accept_if_early,
    quote_if_early,
    quoted_line,
)
from auctune.service.jobs.asked import training_of
from auctune.service.jobs.request import Acceptance, JobRequest
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.time import parse_deadline
from auctune.service.jobs.training import Training
from auctune.service.open_zone import Appraisal, OpenZone
from auctune.service.quotes import Quote, Quotes
from auctune.service.zone.bid import Bid, Reply
from auctune.service.zone.job_row import JobRow
from auctune.service.zone.zone import Zone

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class ZonePausedError(AuctuneError):
    """An operator has the zone take no bids for now."""


class Submissions:
    """Takes requests for jobs.

    Args:
        zones: by name; the first is the default.
        library: of files.
        spending: against budgets.
        open_jobs: how many there are.
        quotes: that were shown.
        now: tells unix time.

    Attributes:
        paused: names of zones that take no bids for now.
    """

    def __init__(
        self,
        zones: Mapping[str, OpenZone],
        library: Library,
        spending: Spending,
        open_jobs: OpenJobs,
        quotes: Quotes,
        now: Callable[[], float],
    ) -> None:
        self.paused: set[str] = set()
        self._open_jobs = open_jobs
        self._turns = Turns()
        self._zones = zones
        self._library = library
        self._spending = spending
        self._quotes = quotes
        self._now = now
        self._background = Background()

    async def submit(
        self, who: Principal, request: JobRequest | Acceptance, reply: Reply | None
    ) -> JobRow:
        """A job, as it stands once this is on record.

        Raises:
            InputError: if it is no job that could be decided on.
            QuoteChangedError: if it accepts a line that is not to be had.
            TooManyError: if its owner has too many open jobs.
            ZonePausedError: if its zone takes no bids.
        """
        job = new_id("ftjob")
        with self._open_jobs.room(who.user, job):
            if isinstance(request, Acceptance):
                return await self._accept(job, who, request, reply)
            return await self._bid_for(job, who, request, reply)

    async def _bid_for(
        self, job: str, who: Principal, request: JobRequest, reply: Reply | None
    ) -> JobRow:
        zone = self._taking_bids(request)
        amount = _bid_amount(request)
        deadline = self._deadline(request, zone)
        training = training_of(request, zone.defaults)
        file = await self._file(training.data, who.user, "training_file")
        if training.validation is not None:
            await self._file(training.validation, who.user, "validation_file")
        self._check_there(training)
        shown = _shown(request, who, amount, deadline)
        size = self._known_size(zone, file, training)
        if size is None:
            row = await self._ask(
                zone, lambda desk: desk.receive(job, who.user, shown, training, reply)
            )
            self.decide_later(zone, job, who.user, training, shown)
            return row
        made = self._bid(job, who.user, training, Appraisal(size), amount, deadline, shown)
        bid = replace(made, reply=reply)
        return await self._in_turn(who.user, zone, lambda desk: desk.decide(bid))

    async def preview(self, who: Principal, request: JobRequest) -> JobRow:
        """The job as it would be decided; nothing happens.

        Raises:
            InputError: as `submit`.
        """
        zone = self.zone(request)
        bid = await self._appraised(
            who, request, zone, _bid_amount(request), self._deadline(request, zone)
        )
        return await self._ask(zone, lambda desk: desk.preview(bid))

    async def quote(self, who: Principal, request: JobRequest) -> Quote:
        """What a job would cost, by the time at which it is finished.

        Raises:
            InputError: as `submit`; a bid and a deadline may be left out.
        """
        zone = self.zone(request)
        deadline = (
            self._now() + zone.supply.cluster.slots * zone.clock.slot_seconds
            if request.market.deadline is None
            else self._deadline(request, zone)
        )
        bid = await self._appraised(who, request, zone, ZERO, deadline)
        menu = await self._ask(zone, lambda desk: desk.quote(bid))
        return self._quotes.add(who.user, zone.name, request, bid.training, menu, deadline)

    def zone(self, request: JobRequest) -> OpenZone:
        """The zone that a request means.

        Raises:
            InputError: if there is none of this name, or it has another base.
        """
        name = request.market.zone
        if name is None:
            fitting = [zone for zone in self._zones.values() if zone.supply.base == request.model]
            zone = fitting[0] if fitting else None
        else:
            zone = self._zones.get(name)
            if zone is None:
                known = ", ".join(self._zones)
                raise InputError("market.zone", f"{name!r} is unknown", f"one of {known}")
        if zone is None or zone.supply.base != request.model:
            bases = ", ".join(dict.fromkeys(z.supply.base for z in self._zones.values()))
            raise InputError("model", f"{request.model!r} is not offered", f"one of {bases}")
        return zone

    def look_at(self, file: FileRecord) -> None:
        """Size a new upload for all bases, so that bids for it need not wait."""
        for zone in self._zones.values():
            self._background.begin(self._look(zone, file))

    def decide_later(
        self,
        zone: OpenZone,
        job: str,
        owner: str,
        training: Training,
        request: dict[str, Any],
    ) -> None:
        """Look at a received job's files, then decide on it; also after a restart."""
        self._background.begin(self._decide(zone, job, owner, training, request))

    async def _look(self, zone: OpenZone, file: FileRecord) -> None:
        try:
            await self._size(zone, file, zone.defaults.length)
        except InputError as error:
            await self._library.note_error(file.id, str(error))
        except AuctuneError as error:
            _log.warning("an upload could not be looked at", file=file.id, reason=str(error))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()

    async def _decide(
        self,
        zone: OpenZone,
        job: str,
        owner: str,
        training: Training,
        request: dict[str, Any],
    ) -> None:
        try:
            file = await self._file(training.data, owner, "training_file")
            found = await self._appraise(zone, file, training, owner)
            amount, deadline = Money(request["bid"]), request["deadline"]
            bid = self._bid(job, owner, training, found, amount, deadline, request)
            await self._in_turn(owner, zone, lambda desk: desk.decide_received(bid))
        except InputError as error:
            refusal = error
            await self._ask(zone, lambda desk: desk.refuse(job, refusal))
        except DataError as error:
            reason = str(error)
            await self._ask(zone, lambda desk: _give_up(desk, job, reason))
        except AuctuneError as error:
            # The job stays on record as received, and is taken up again at the next start.
            _log.error("a job could not be decided on", job=job, reason=str(error))

    async def _accept(
        self, job: str, who: Principal, accepted: Acceptance, reply: Reply | None
    ) -> JobRow:
        found_quote = self._quotes.get(accepted.market.quote or "", who.user)
        quote, line, request = quoted_line(accepted, found_quote)
        zone = self._zones[quote.zone]
        if zone.name in self.paused:
            raise ZonePausedError(f"zone {zone.name} takes no bids now")
        deadline = zone.clock.ends(line.deadline)
        amount = line.price if request.market.bid is None else _bid_amount(request)
        shown = _shown(request, who, amount, deadline)
        file = await self._file(quote.training.data, who.user, "training_file")
        found = await self._appraise(zone, file, quote.training, who.user)
        self._check_there(quote.training)
        made = self._bid(job, who.user, quote.training, found, amount, deadline, shown)
        bid = replace(made, reply=reply)
        row = await self._in_turn(who.user, zone, lambda desk: accept_if_early(desk, bid, line))
        if row is None:
            again = replace(bid, bid=ZERO, deadline=quote.deadline)
            menu = await self._ask(zone, lambda desk: quote_if_early(desk, again))
            shown_anew = self._quotes.add(
                who.user, zone.name, quote.request, quote.training, menu, quote.deadline
            )
            raise QuoteChangedError(shown_anew, line, zone.clock)
        return row

    def _taking_bids(self, request: JobRequest) -> OpenZone:
        zone = self.zone(request)
        if zone.name in self.paused:
            raise ZonePausedError(f"zone {zone.name} takes no bids now")
        return zone

    def _check_there(self, training: Training) -> None:
        """That no file has begun to leave meanwhile; what comes next on the desk will keep it."""
        for name, place in (
            (training.data, "training_file"),
            (training.validation, "validation_file"),
        ):
            if name is not None and not self._library.is_there(name):
                raise InputError(place, f"{name!r} is being deleted", "a file that stays")

    async def _in_turn(self, owner: str, zone: OpenZone, run: Callable[[Zone], T]) -> T:
        """Desks decide side by side; what two of them take from one budget must not."""
        names = [one.key for one in self._spending.accounts(owner) if one.budget is not None]
        if not names or len(self._zones) == 1:
            return await self._ask(zone, run)
        async with self._turns.of(names):
            return await self._ask(zone, run)

    async def _appraised(
        self,
        who: Principal,
        request: JobRequest,
        zone: OpenZone,
        amount: Money,
        deadline: float,
    ) -> Bid:
        training = training_of(request, zone.defaults)
        file = await self._file(training.data, who.user, "training_file")
        found = await self._appraise(zone, file, training, who.user)
        shown = _shown(request, who, amount, deadline)
        return self._bid(new_id("ftjob"), who.user, training, found, amount, deadline, shown)

    async def _appraise(
        self, zone: OpenZone, file: FileRecord, training: Training, owner: str
    ) -> Appraisal:
        if training.validation is not None:
            validation = await self._file(training.validation, owner, "validation_file")
            await self._size(zone, validation, training.max_length)
        if training.repair:
            return await zone.appraiser.appraise(file, training)
        return Appraisal(await self._size(zone, file, training.max_length))

    async def _size(self, zone: OpenZone, file: FileRecord, max_length: int) -> DataSize:
        size = file.size_for(zone.supply.base_digest, max_length)
        if size is None:
            size = await zone.appraiser.size(file, max_length)
            await self._library.note_size(file.id, zone.supply.base_digest, max_length, size)
        return size

    def _known_size(self, zone: OpenZone, file: FileRecord, training: Training) -> DataSize | None:
        """The size of a clean data set, if everything about the job's files is known."""
        if training.repair:
            return None
        if training.validation is not None:
            validation = self._library.known(training.validation)
            key = zone.supply.base_digest, training.max_length
            if validation is None or validation.size_for(*key) is None:
                return None
        return file.size_for(zone.supply.base_digest, training.max_length)

    async def _file(self, name: str, owner: str, place: str) -> FileRecord:
        return owned(await self._library.get(name), owner, name, place)

    def _bid(
        self,
        job: str,
        owner: str,
        training: Training,
        found: Appraisal,
        amount: Money,
        deadline: float,
        request: dict[str, Any],
    ) -> Bid:
        return Bid(
            job=job,
            owner=owner,
            training=training,
            size=found.size,
            bid=amount,
            deadline=deadline,
            offers=found.offers,
            request=request,
            left=lambda: self._spending.left(owner),
        )

    def _deadline(self, request: JobRequest, zone: OpenZone) -> float:
        text = request.market.deadline
        if text is None:
            raise InputError("market.deadline", "is missing", "a time, or a span such as +2h")
        return parse_deadline(text, self._now())

    async def _ask(self, zone: OpenZone, run: Callable[[Zone], T]) -> T:
        return await zone.desk.ask_here(run)


def _bid_amount(request: JobRequest) -> Money:
    bid = request.market.bid
    if bid is None:
        raise InputError("market.bid", "is missing", 'an amount of money, as text: "12.50"')
    return parse_money(bid, "market.bid")


def _give_up(zone: Zone, job: str, reason: str) -> None:
    if job in zone.state.received:
        zone.fail(job, "data_failed", reason, "training_file", refund=False)


def _shown(request: JobRequest, who: Principal, bid: Money, deadline: float) -> dict[str, Any]:
    """What an owner reads again of a request."""
    rate = request.chosen.learning_rate_multiplier
    return {
        "model": request.model,
        "training_file": request.training_file,
        "validation_file": request.validation_file,
        "learning_rate_multiplier": 1.0 if rate == "auto" else rate,
        "organization_id": who.team or who.user,
        "metadata": request.metadata,
        "suffix": request.suffix,
        "bid": str(bid),
        "deadline": deadline,
    }
