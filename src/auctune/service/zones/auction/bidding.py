"""From a request for a job to an auction's decision: files are looked at, the bid is read.

Where the files were looked at before, the decision is the answer. Where they were not, or a vendor
must be asked, the job is on record as `validating_files` first, and decided as soon as they are.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from auctune.domain import Money
from auctune.service.access.key import Principal
from auctune.service.jobs.asked import Defaults, training_of
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.job_files import JobFiles
from auctune.service.jobs.reply import Reply
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.terms import asked_deadline, bid_amount, shown_request
from auctune.service.jobs.training import Training
from auctune.service.zones.appraisal import Appraisal
from auctune.service.zones.auction.bid import Bid
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.late_decisions import LateDecisions
from auctune.service.zones.offer import NO_CHOICE, Alternatives

T = TypeVar("T")


class Bidding:
    """Takes bids for one zone.

    Args:
        desk: decides.
        defaults: what is chosen where requests do not.
        files: of jobs.
        turns: those of one budget pass one after the other.
        now: tells unix time.
    """

    def __init__(
        self,
        desk: Desk[AuctionZone],
        defaults: Defaults,
        files: JobFiles,
        turns: BudgetTurns,
        now: Callable[[], float],
    ) -> None:
        self._desk = desk
        self._defaults = defaults
        self._files = files
        self._turns = turns
        self._now = now
        self._late = LateDecisions(desk)

    async def submit(
        self,
        job: str,
        who: Principal,
        request: JobRequest,
        reply: Reply | None,
        alternatives: Alternatives = NO_CHOICE,
    ) -> JobRow:
        """A job, as it stands once this is on record.

        Raises:
            InputError: if it is no job that could be decided on.
        """
        amount = bid_amount(request)
        deadline = asked_deadline(request, self._now())
        training = training_of(request, self._defaults)
        file = await self._files.get(training.data, who.user, "training_file")
        if training.validation is not None:
            await self._files.get(training.validation, who.user, "validation_file")
        self._files.check_there(training)
        shown = shown_request(request, who, amount, deadline, alternatives)
        size = self._files.known_size(file, training)
        if size is None:
            row = await self._desk.ask_here(
                lambda zone: zone.receive(job, who.user, shown, training, reply)
            )
            self.decide_later(job, who.user, training, shown)
            return row
        bid = self.bid(job, who.user, training, Appraisal(size), amount, deadline, shown, reply)
        return await self.in_turn(bid, lambda zone: zone.decide(bid))

    def bid(
        self,
        job: str,
        owner: str,
        training: Training,
        found: Appraisal,
        amount: Money,
        deadline: float,
        request: dict[str, Any],
        reply: Reply | None = None,
    ) -> Bid:
        """A bid of an owner's, within its budget."""
        return Bid(
            job=job,
            owner=owner,
            training=training,
            size=found.size,
            bid=amount,
            deadline=deadline,
            offers=found.offers,
            request=request,
            left=lambda: self._turns.left(owner),
            reply=reply,
        )

    async def in_turn(self, bid: Bid, decide: Callable[[AuctionZone], T]) -> T:
        """Have the zone decide once it is the bid's turn.

        Raises:
            InputError: if a file of its is gone by then.
        """
        check = partial(self._files.check_there, bid.training)
        return await self._turns.in_turn(bid.owner, self._desk, check, decide)

    def decide_later(
        self, job: str, owner: str, training: Training, request: dict[str, Any]
    ) -> None:
        """Look at a received job's files, then decide on it; also after a restart."""
        self._late.begin(job, lambda: self._decide(job, owner, training, request))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._late.close()

    async def _decide(
        self, job: str, owner: str, training: Training, request: dict[str, Any]
    ) -> None:
        file = await self._files.get(training.data, owner, "training_file")
        found = await self._files.appraise(file, training, owner)
        amount, deadline = Money(request["bid"]), request["deadline"]
        bid = self.bid(job, owner, training, found, amount, deadline, request)
        await self.in_turn(bid, lambda zone: zone.decide_received(bid))
