"""Watching jobs of a service that goes away and comes back."""

from collections.abc import Iterator
from typing import Any, Self

import pytest

from auctune.client import Job, ServiceError, UnreachableError
from auctune.client.watch import Changed, Found, Lost, watch


def job(name: str, status: str, rows: int = 0) -> Job:
    market = {"decision": "admitted", "state": status, "progress": {"rows": rows, "total_rows": 9}}
    record = {"id": name, "status": status, "metadata": None, "market": market, "error": None}
    return Job.read(record)


class Service:
    """One of which each look at a job takes the next of its answers.

    Args:
        script: jobs, or errors.
    """

    def __init__(self, *script: Job | Exception) -> None:
        self._script: Iterator[Any] = iter(script)
        self.url = "http://here"
        self.num_connections = 0

    def connect(self) -> "Service":
        self.num_connections += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def job(self, name: str) -> Job:
        answer = next(self._script)
        if isinstance(answer, Exception):
            raise answer
        assert answer.id == name
        found: Job = answer
        return found


def news_of(service: Service, *jobs: str) -> tuple[list[Any], list[float]]:
    slept: list[float] = []
    connect: Any = service.connect
    return list(watch(dict.fromkeys(jobs), connect, slept.append)), slept


def test_each_change_is_told_once_and_the_end_ends_it() -> None:
    a, b = job("a", "running", 1), job("a", "running", 2)
    done = job("a", "succeeded", 9)
    news, slept = news_of(Service(a, a, b, b, done), "a")
    assert news == [Changed(None, a), Changed(a, b), Changed(b, done)]
    assert len(slept) == 4


def test_those_that_are_over_are_not_asked_about_again() -> None:
    done, running, later = job("a", "failed"), job("b", "running"), job("b", "succeeded")
    news, _ = news_of(Service(done, running, later), "a", "b")
    assert [one.job for one in news] == [done, running, later]


def test_a_service_that_is_away_is_found_again_and_nothing_is_told_twice() -> None:
    running, done = job("a", "running"), job("a", "succeeded")
    away = UnreachableError("http://here does not answer")
    starting = ServiceError("starting", 503, "unavailable")
    service = Service(running, away, away, starting, running, done)
    news, slept = news_of(service, "a")
    assert news == [
        Changed(None, running),
        Lost("http://here does not answer"),
        Found("http://here"),
        Changed(running, done),
    ]
    assert service.num_connections == 4
    assert slept[1:4] == [1.0, 2.0, 3.0]


def test_what_the_service_denies_is_not_asked_for_again() -> None:
    with pytest.raises(ServiceError, match="no job"):
        news_of(Service(ServiceError("there is no job 'a'", 404, "not_found")), "a")
