"""Jobs watched to their end by their streams of events, whatever happens to the service meanwhile.

A thread a job follows the job's stream; each event is a reason to look at the job. A stream that
broke off is opened again behind the last event that was heard, at the address that the service has
by then.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from auctune.client.client import Client
from auctune.client.errors import ServiceError, UnreachableError
from auctune.client.job import Job

# Fewer than a service allows a key, so that others can watch too.
STREAMS = 16
_PAUSE = 1.0
_LONGEST_PAUSE = 5.0
# What a service or what stands before it answers that is starting or stopping, or has no stream
# left for now.
_AWAY = (429, 500, 502, 503, 504)

Connect = Callable[[], Client]
"""A client of the service, as it is to be found now."""
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Changed:
    """A job stands otherwise than before, or is seen for the first time."""

    before: Job | None
    job: Job


@dataclass(frozen=True, slots=True)
class Lost:
    """The service does not answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    """The service answers again, perhaps at another place."""

    url: str


News = Changed | Lost | Found


@dataclass(frozen=True, slots=True)
class _Seen:
    """A look at a job, at a service's address."""

    name: str
    job: Job
    url: str


@dataclass(frozen=True, slots=True)
class _Away:
    """A job cannot be looked at for now."""

    name: str
    reason: str


_Told = _Seen | _Away | Exception


def watch(jobs: Mapping[str, Job | None], connect: Connect, sleep: Sleep) -> Iterator[News]:
    """News of jobs, until all are over.

    Args:
        jobs: as they were seen last, by id; none: not yet. So many as there are streams are
            followed at a time, in this order; the others as soon as one of those is over.
        connect: makes a client of the service, on any thread.
        sleep: waits so many seconds.

    Raises:
        ServiceError: for a job that there is not, or a key that is not good.
    """
    seen = dict(jobs)
    waiting: SimpleQueue[str] = SimpleQueue()
    for name in _open(seen):
        waiting.put(name)
    told: SimpleQueue[_Told] = SimpleQueue()
    ended = threading.Event()
    for _ in range(min(STREAMS, len(_open(seen)))):
        follower = _Follower(connect, sleep, told.put, ended)
        threading.Thread(target=follower.run, args=(waiting,), daemon=True).start()
    try:
        yield from _news(seen, told)
    finally:
        ended.set()


def _news(seen: dict[str, Job | None], told: "SimpleQueue[_Told]") -> Iterator[News]:
    away: set[str] = set()
    while _open(seen):
        one = told.get()
        if isinstance(one, Exception):
            raise one
        if isinstance(one, _Away):
            if not away:
                yield Lost(one.reason)
            away.add(one.name)
            continue
        if one.name in away:
            away.remove(one.name)
            if not away:
                yield Found(one.url)
        before, seen[one.name] = seen[one.name], one.job
        if one.job != before:
            yield Changed(before, one.job)


class _Follower:
    """Follows one job after the other, on a thread of its own.

    Args:
        connect, sleep: as of `watch`.
        tell: told of each look.
        ended: set once nobody listens.
    """

    def __init__(
        self,
        connect: Connect,
        sleep: Sleep,
        tell: Callable[[_Told], None],
        ended: threading.Event,
    ) -> None:
        self._connect = connect
        self._sleep = sleep
        self._tell = tell
        self._ended = ended

    def run(self, waiting: "SimpleQueue[str]") -> None:
        """Follow jobs until none waits."""
        while not self._ended.is_set():
            try:
                name = waiting.get_nowait()
            except Empty:
                return
            try:
                self._follow(name)
            except Exception as error:
                # It is raised where somebody sees it.
                self._tell(error)
                return

    def _follow(self, name: str) -> None:
        heard: int | None = None
        failures = 0
        while not self._ended.is_set():
            try:
                with self._connect() as client:
                    if heard is None:
                        heard = client.newest_event(name)
                    is_over = self._look(client, name)
                    failures = 0
                    if is_over:
                        return
                    for event in client.events(name, heard):
                        heard = event.id
                        if self._look(client, name) or self._ended.is_set():
                            return
                # It ended before the job did: the service stops, or the key is no more.
                self._sleep(_PAUSE)
            except (ServiceError, UnreachableError) as error:
                if isinstance(error, ServiceError) and error.status not in _AWAY:
                    raise
                failures += 1
                self._tell(_Away(name, str(error)))
                self._sleep(min(_LONGEST_PAUSE, _PAUSE * failures))

    def _look(self, client: Client, name: str) -> bool:
        """Look at a job; whether it is over."""
        job = client.job(name)
        self._tell(_Seen(name, job, client.url))
        return job.is_over


def _open(seen: Mapping[str, Job | None]) -> list[str]:
    """Jobs of which there is news to come."""
    return [name for name, job in seen.items() if job is None or not job.is_over]
