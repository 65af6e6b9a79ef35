"""Watching jobs of a service that goes away and comes back."""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Self

import pytest

from auctune.client import Job, ServiceError, UnreachableError
from auctune.client.transport import ServerSentEvent, parse_events
from auctune.client.watch import MAX_STREAMS, Disconnected, JobChanged, Reconnected, watch


def job(name: str, status: str, rows: int = 0) -> Job:
    market = {"decision": "admitted", "state": status, "progress": {"rows": rows, "total_rows": 9}}
    record = {"id": name, "status": status, "metadata": None, "market": market, "error": None}
    return Job.read(record)


class Service:
    """One that answers by a script: each look at a job, and each event of a stream, is a step.

    Args:
        script: jobs that are seen, numbers of events, `END` of a stream, or errors.
    """

    def __init__(self, *script: Job | int | str | Exception) -> None:
        self._script = deque(script)
        self.url = "http://here"
        self.num_connections = 0
        self.opened_behind: list[int] = []
        self.metrics_behind: list[int] = []

    def connect(self) -> "Service":
        self.num_connections += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def newest_event(self, name: str) -> int:
        return 100

    def job(self, name: str) -> Job:
        found = self._next()
        assert isinstance(found, Job)
        assert found.id == name
        return found

    def metrics(self, name: str, after: int) -> tuple[list[dict[str, Any]], int]:
        self.metrics_behind.append(after)
        newest = self._next()
        assert isinstance(newest, int)
        return [{"step": one} for one in range(after + 1, newest + 1)], newest

    def events(self, name: str, after: int) -> Iterator[ServerSentEvent]:
        self.opened_behind.append(after)
        while (step := self._next()) != END:
            assert isinstance(step, int)
            yield ServerSentEvent(step, "job.trained", {})

    def _next(self) -> Job | int | str:
        step = self._script.popleft()
        if isinstance(step, Exception):
            raise step
        return step


END = "end"


def news_of(service: Service, *jobs: str) -> tuple[list[Any], list[float]]:
    slept: list[float] = []
    connect: Any = service.connect
    return list(watch(dict.fromkeys(jobs), connect, slept.append)), slept


def test_each_event_is_a_look_and_each_change_is_told_once() -> None:
    a, b, done = job("a", "running", 1), job("a", "running", 2), job("a", "succeeded", 9)
    service = Service(a, 101, a, 105, b, 107, done)
    news, slept = news_of(service, "a")
    assert news == [JobChanged(None, a), JobChanged(a, b), JobChanged(b, done)]
    assert (service.num_connections, service.opened_behind, slept) == (1, [100], [])


def test_a_job_that_is_over_has_no_stream() -> None:
    done = job("a", "failed")
    service = Service(done)
    assert news_of(service, "a")[0] == [JobChanged(None, done)]
    assert service.opened_behind == []


def test_a_stream_that_broke_off_is_opened_behind_the_last_event_that_was_heard() -> None:
    running, more, done = job("a", "running"), job("a", "running", 5), job("a", "succeeded")
    away = UnreachableError("http://here does not answer")
    starting = ServiceError("starting", 503, "unavailable")
    service = Service(running, 104, more, away, away, starting, more, 110, done)
    news, slept = news_of(service, "a")
    assert news == [
        JobChanged(None, running),
        JobChanged(running, more),
        Disconnected("http://here does not answer"),
        Reconnected("http://here"),
        JobChanged(more, done),
    ]
    assert service.opened_behind == [100, 104]
    assert slept == [1.0, 2.0, 3.0]


def test_a_stream_that_ends_before_its_job_is_opened_again() -> None:
    running, done = job("a", "running"), job("a", "succeeded")
    service = Service(running, 101, running, END, running, 102, done)
    news, slept = news_of(service, "a")
    assert news == [JobChanged(None, running), JobChanged(running, done)]
    assert (service.opened_behind, slept) == ([100, 101], [1.0])


def test_what_the_service_denies_is_not_asked_for_again() -> None:
    with pytest.raises(ServiceError, match="no job"):
        news_of(Service(ServiceError("there is no job 'a'", 404, "not_found")), "a")


def test_metrics_of_all_steps_come_once_also_through_an_outage() -> None:
    running, done = job("a", "running"), job("a", "succeeded")
    away = UnreachableError("http://here does not answer")
    service = Service(running, 2, 101, running, away, running, 3, 102, done, 3)
    connect: Any = service.connect
    news = list(watch({"a": None}, connect, lambda _: None, with_metrics=True))
    assert news == [
        JobChanged(None, running, [{"step": 1}, {"step": 2}]),
        Disconnected("http://here does not answer"),
        Reconnected("http://here"),
        JobChanged(running, running, [{"step": 3}]),
        JobChanged(running, done, []),
    ]
    assert service.metrics_behind == [0, 2, 2, 3]


class Crowded:
    """A service with many jobs, each of which is over once it was looked at twice."""

    def __init__(self) -> None:
        self.url = "http://here"
        self._lock = threading.Lock()
        self._looks: dict[str, int] = {}
        self.open = self.most_open = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def newest_event(self, name: str) -> int:
        return 0

    def job(self, name: str) -> Job:
        with self._lock:
            self._looks[name] = self._looks.get(name, 0) + 1
            return job(name, "succeeded" if self._looks[name] == 2 else "running")

    def events(self, name: str, after: int) -> Iterator[ServerSentEvent]:
        with self._lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            yield ServerSentEvent(after + 1, "job.finished", {})
        finally:
            with self._lock:
                self.open -= 1


def test_of_many_jobs_none_is_forgotten_and_so_many_are_followed_at_a_time() -> None:
    service: Any = Crowded()
    names = [f"job-{n}" for n in range(3 * MAX_STREAMS)]
    news = list(watch(dict.fromkeys(names), lambda: service, lambda _: None))
    changes = [one.job for one in news if isinstance(one, JobChanged)]
    assert len(changes) == len(news)
    assert sorted(one.id for one in changes if one.is_over) == sorted(names)
    assert 0 < service.most_open <= MAX_STREAMS


def test_events_are_read_and_comments_passed_over() -> None:
    lines = [": the stream is open", "", "id: 7", "event: job.trained", 'data: {"rows": 1}', ""]
    lines += [": still there", "", "id:8", 'data: {"a":', "data: 2}", "", "id: 9"]
    assert list(parse_events(lines)) == [
        ServerSentEvent(7, "job.trained", {"rows": 1}),
        ServerSentEvent(8, "message", {"a": 2}),
    ]
