"""Jobs watched to their end, whatever happens to the service meanwhile.

A service that does not answer is asked again, and found again where it comes back: its address is
looked up anew each time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from auctune.client.client import Client
from auctune.client.errors import ServiceError, UnreachableError
from auctune.client.job import Job

_INTERVAL = 0.5
_PAUSE = 1.0
_LONGEST_PAUSE = 5.0
# What a service or what stands before it answers that is starting or stopping.
_AWAY = (429, 500, 502, 503, 504)


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


def watch(
    jobs: Mapping[str, Job | None],
    connect: Callable[[], Client],
    sleep: Callable[[float], None],
) -> Iterator[News]:
    """News of jobs, until all are over.

    Args:
        jobs: as they were seen last, by id; none: not yet.
        connect: a client of the service, as it is to be found now.
        sleep: waits so many seconds.

    Raises:
        ServiceError: for a job that there is not, or a key that is not good.
    """
    seen = dict(jobs)
    away = 0
    while _open(seen):
        try:
            with connect() as client:
                while waiting := _open(seen):
                    for name in waiting:
                        before, job = seen[name], client.job(name)
                        if away:
                            away = 0
                            yield Found(client.url)
                        seen[name] = job
                        if job != before:
                            yield Changed(before, job)
                    if _open(seen):
                        sleep(_INTERVAL)
        except (ServiceError, UnreachableError) as error:
            if isinstance(error, ServiceError) and error.status not in _AWAY:
                raise
            if not away:
                yield Lost(str(error))
            away += 1
            sleep(min(_LONGEST_PAUSE, _PAUSE * away))


def _open(seen: Mapping[str, Job | None]) -> list[str]:
    """Jobs of which there is news to come."""
    return [name for name, job in seen.items() if job is None or not job.is_over]
