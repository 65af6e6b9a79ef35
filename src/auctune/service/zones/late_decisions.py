"""Decisions on jobs that are on record already, while their data are still being looked at.

Whatever goes wrong ends as the job's own failure, or leaves it on record as received, to be taken
up again at the next start.
"""

from collections.abc import Awaitable, Callable

import structlog

from auctune.domain import AuctuneError, InputError
from auctune.run.data.client import DataError
from auctune.service.background import Background
from auctune.service.zones.desk import Desk
from auctune.service.zones.zone import Zone

_log = structlog.get_logger(__name__)


class LateDecisions:
    """Of one zone, each in the background.

    Args:
        desk: decides.
    """

    def __init__(self, desk: Desk[Zone]) -> None:
        self._desk = desk
        self._background = Background()

    def begin(self, job: str, decide: Callable[[], Awaitable[object]]) -> None:
        """Decide on a received job as soon as that is possible.

        Args:
            job: its id.
            decide: looks at its files, and has the zone decide.
        """
        self._background.begin(self._decide(job, decide))

    async def close(self) -> None:
        """Leave what is under way: it is on record, and goes on after the next start."""
        await self._background.close()

    async def _decide(self, job: str, decide: Callable[[], Awaitable[object]]) -> None:
        try:
            await decide()
        except InputError as error:
            refusal = error
            await self._desk.ask_here(lambda zone: zone.refuse(job, refusal))
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
            if job in zone.waiting:
                zone.fail(job, code, reason, param, refund=False)

        await self._desk.ask_here(end)
