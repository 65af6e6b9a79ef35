"""Wait until a write has been committed."""

import asyncio
from concurrent.futures import Future

from auctune.service.store.committer import Committer
from auctune.service.store.unit import Unit


async def durable(committer: Committer, unit: Unit) -> None:
    """Submit a unit, and wait until it has been committed.

    Raises:
        UnitError: if this unit could not be written, and nothing of it was.
        StoreError: if the database failed.
    """
    future: Future[None] = Future()
    # A caller that is cancelled cannot cancel the write; the results of others are not affected.
    future.set_running_or_notify_cancel()

    def done(error: Exception | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    unit.done = done
    committer.submit(unit)
    await asyncio.wrap_future(future)
