"""Waiting until something is on disk."""

from concurrent.futures import Future

from auctune.service.store.committer import Committer
from auctune.service.store.unit import Unit


def durable(committer: Committer, unit: Unit) -> "Future[None]":
    """Submit a unit; done when it is on disk, or with what went wrong."""
    future: Future[None] = Future()
    # Who no longer waits cannot take it back: it is told to nobody, and others are told theirs.
    future.set_running_or_notify_cancel()

    def done(error: Exception | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    unit.done = done
    committer.submit(unit)
    return future
