"""Jobs that are to be decided on: each in the turn of its budget, some while data are looked at.

What waits is on record already. Whatever goes wrong with it ends as the job's own failure, or
leaves it on record as received, to be taken up again at the next start.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import DataError
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.training import Training
from auctune.service.tasks import TaskSet
from auctune.service.zones.desk import Desk
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.noting import Asks, NotingZone
from auctune.service.zones.zone import Zone

_log = structlog.get_logger(__name__)

B = TypeVar("B", bound=Asks)
T = TypeVar("T")
Z = TypeVar("Z", bound=NotingZone[Any, Any])

Record = dict[str, Any]
MakeBid = Callable[[str, str, Training, Record], Awaitable[B]]
"""Looks at a job's files; told its id, its owner, what it trains and its request on record."""


class Docket(Generic[Z, B]):
    """Of one zone.

    Args:
        desk: decides.
        turns: those of one budget pass one after the other.
        check_there: that all files of a bid are there; called on the desk.
        make_bid: of a job that was received.
    """

    def __init__(
        self,
        desk: Desk[Z],
        turns: BudgetTurns,
        check_there: Callable[[B], None],
        make_bid: MakeBid[B],
    ) -> None:
        self._desk = desk
        self._turns = turns
        self._check_there = check_there
        self._make_bid = make_bid
        self._background = TaskSet()

    async def decide_in_turn(self, bid: B, decide: Callable[[Z], T]) -> T:
        """Have the zone decide once it is the bid's turn.

        Raises:
            InputError: if a file of its is gone by then.
        """
        return await self._turns.in_turn(
            bid.owner, self._desk, lambda: self._check_there(bid), decide
        )

    async def receive(
        self,
        job: str,
        owner: str,
        training: Training,
        request: Record,
        reply: IdempotencyKey | None,
    ) -> JobRow:
        """Put a job on record whose files are not known yet, and decide on it later."""
        row = await self._desk.call(lambda zone: zone.receive(job, owner, request, training, reply))
        self.enqueue(job, owner, training, request)
        return row

    def enqueue(self, job: str, owner: str, training: Training, request: Record) -> None:
        """Look at a received job's files, then decide on it; also after a restart."""
        self._background.spawn(self._decide(job, owner, training, request))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()

    async def _decide(self, job: str, owner: str, training: Training, request: Record) -> None:
        try:
            bid = await self._make_bid(job, owner, training, request)
            await self.decide_in_turn(bid, lambda zone: zone.decide_received(bid))
        except InputError as error:
            refusal = error
            await self._desk.call(lambda zone: zone.reject_pending(job, refusal))
        except DataError as error:
            await self._give_up(job, "data_failed", str(error), "training_file")
        except AuctuneError as error:
            # The job stays on record as received, and is taken up again at the next start.
            _log.error("a job could not be decided on", job=job, reason=str(error))
        except Exception:
            # A mistake of ours would be made again: its owner shall not wait for it.
            _log.exception("a job could not be decided on", job=job)
            reason = "the service made a mistake; it is on record, and nothing was charged"
            await self._give_up(job, "internal", reason, None)

    async def _give_up(self, job: str, code: str, reason: str, param: str | None) -> None:
        """End a job that is not decided on yet: nothing is held for it, and nothing was paid."""

        def end(zone: Zone) -> None:
            if job in zone.pending_jobs:
                zone.fail(job, code, reason, param, refund=False)

        await self._desk.call(end)
