"""A recorder with listeners: quotas are updated with a decision, all others after its commit."""

from collections.abc import Sequence

from auctune.service.accounts.limits import OPEN, JobQuota
from auctune.service.metrics import Metrics
from auctune.service.notifier import Notifier
from auctune.service.webhooks.dispatcher import JOB_ENDED
from auctune.service.zones.change import Change
from auctune.service.zones.event import ZoneEvent
from auctune.service.zones.recorder import Done, Recorder


class AudibleRecorder:
    """A recorder that updates quotas and metrics, and notifies subscribers.

    Args:
        log: writes the events.
        open_jobs: updated at once.
        metrics, notifier: updated once the events have been committed.
    """

    def __init__(
        self, log: Recorder, open_jobs: JobQuota, metrics: Metrics, notifier: Notifier
    ) -> None:
        self._log = log
        self._open_jobs = open_jobs
        self._metrics = metrics
        self._notifier = notifier

    def next_seq(self) -> int:
        """Return the next sequence number of the log."""
        return self._log.next_seq()

    def record(self, happened: Sequence[tuple[ZoneEvent, Change]], done: Done) -> None:
        """Write events and their effects; call `done` and the listeners after the commit."""
        for _, change in happened:
            self._open_jobs.update(change.rows)

        def kept(error: Exception | None) -> None:
            done(error)
            if error is None:
                self._metrics.observe_events(happened)
                self._notifier.publish(name for one in happened for name in _topics(*one))

        self._log.record(happened, kept)


def _topics(event: ZoneEvent, change: Change) -> tuple[str, ...]:
    if event.job is None:
        return (event.zone,)
    was_open = any(row.status not in OPEN and row.seq < event.seq for row in change.rows)
    return (event.zone, event.job, JOB_ENDED) if was_open else (event.zone, event.job)
