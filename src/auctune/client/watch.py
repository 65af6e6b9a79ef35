"""Follow jobs to their end by their event streams, through restarts of the service.

One thread per job follows its stream and fetches the job after each event. A broken stream is
reopened after the last event received, at the service's present URL.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from auctune.client.client import Client
from auctune.client.errors import ServiceError, UnreachableError
from auctune.client.job import Job
from auctune.client.transport import Record

# Fewer than the service allows per key, so that other clients can watch too.
MAX_STREAMS = 16
_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 5.0
# Statuses of a service or proxy that is starting, stopping, or out of streams: retried.
_UNAVAILABLE = (429, 500, 502, 503, 504)

Connect = Callable[[], Client]
"""Returns a client of the service at its present URL."""
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job changed, or was fetched for the first time (`before` is `None`).

    `steps` has the metrics of its steps since the last update, if they were asked for.
    """

    before: Job | None
    job: Job
    steps: Sequence[Record] = ()


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The service does not answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The service answers again, possibly at another URL."""

    url: str


Update = JobChanged | Disconnected | Reconnected


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A job fetched from the service at a URL."""

    name: str
    job: Job
    url: str
    steps: Sequence[Record]


@dataclass(frozen=True, slots=True)
class _Unreachable:
    """A job cannot be fetched at present."""

    name: str
    reason: str


_Message = _Fetched | _Unreachable | Exception


def watch(
    jobs: Mapping[str, Job | None],
    connect: Connect,
    sleep: Sleep,
    *,
    with_metrics: bool = False,
) -> Iterator[Update]:
    """Yield updates of jobs until all have ended.

    Args:
        jobs: last seen record by id, or `None`. At most `MAX_STREAMS` are followed at a time, in
            this order; the others follow as those end.
        connect: returns a client of the service; called on several threads.
        sleep: waits a number of seconds.
        with_metrics: also fetch the metrics of all steps, from the first on.

    Raises:
        ServiceError: for a job that does not exist, or a key that is not valid.
    """
    seen = dict(jobs)
    waiting: SimpleQueue[str] = SimpleQueue()
    for name in _under_way(seen):
        waiting.put(name)
    messages: SimpleQueue[_Message] = SimpleQueue()
    ended = threading.Event()
    for _ in range(min(MAX_STREAMS, len(_under_way(seen)))):
        follower = _JobFollower(connect, sleep, messages.put, ended, with_metrics)
        threading.Thread(target=follower.run, args=(waiting,), daemon=True).start()
    try:
        yield from _updates(seen, messages)
    finally:
        ended.set()


def _updates(seen: dict[str, Job | None], messages: "SimpleQueue[_Message]") -> Iterator[Update]:
    unreachable: set[str] = set()
    while _under_way(seen):
        one = messages.get()
        if isinstance(one, Exception):
            raise one
        if isinstance(one, _Unreachable):
            if not unreachable:
                yield Disconnected(one.reason)
            unreachable.add(one.name)
            continue
        if one.name in unreachable:
            unreachable.remove(one.name)
            if not unreachable:
                yield Reconnected(one.url)
        before, seen[one.name] = seen[one.name], one.job
        if one.job != before or one.steps:
            yield JobChanged(before, one.job, one.steps)


class _JobFollower:
    """Follows one job after another, on its own thread.

    Args:
        connect, sleep, with_metrics: see `watch`.
        post: receives each message.
        ended: set once nothing receives messages.
    """

    def __init__(
        self,
        connect: Connect,
        sleep: Sleep,
        post: Callable[[_Message], None],
        ended: threading.Event,
        with_metrics: bool,
    ) -> None:
        self._connect = connect
        self._sleep = sleep
        self._post = post
        self._ended = ended
        self._with_metrics = with_metrics
        # Number of the newest event whose metrics were posted, of the job being followed.
        self._last_metrics = 0

    def run(self, waiting: "SimpleQueue[str]") -> None:
        """Follow jobs until the queue is empty."""
        while not self._ended.is_set():
            try:
                name = waiting.get_nowait()
            except Empty:
                return
            try:
                self._follow(name)
            except Exception as error:
                # `watch` raises the error on its own thread.
                self._post(error)
                return

    def _follow(self, name: str) -> None:
        last_event: int | None = None
        self._last_metrics = 0
        failures = 0
        while not self._ended.is_set():
            try:
                with self._connect() as client:
                    if last_event is None:
                        last_event = client.newest_event(name)
                    is_over = self._fetch(client, name)
                    failures = 0
                    if is_over:
                        return
                    for event in client.events(name, last_event):
                        last_event = event.id
                        if self._fetch(client, name) or self._ended.is_set():
                            return
                # The stream ended before the job: the service stops, or the key was revoked.
                self._sleep(_BACKOFF_SECONDS)
            except (ServiceError, UnreachableError) as error:
                if isinstance(error, ServiceError) and error.status not in _UNAVAILABLE:
                    raise
                failures += 1
                self._post(_Unreachable(name, str(error)))
                self._sleep(min(_MAX_BACKOFF_SECONDS, _BACKOFF_SECONDS * failures))

    def _fetch(self, client: Client, name: str) -> bool:
        """Fetch a job; return whether it has ended."""
        job = client.job(name)
        steps: Sequence[Record] = ()
        if self._with_metrics:
            # After the job: of one that is over these are all that there will be.
            steps, self._last_metrics = client.metrics(name, self._last_metrics)
        self._post(_Fetched(name, job, client.url, steps))
        return job.is_over


def _under_way(seen: Mapping[str, Job | None]) -> list[str]:
    return [name for name, job in seen.items() if job is None or not job.is_over]
