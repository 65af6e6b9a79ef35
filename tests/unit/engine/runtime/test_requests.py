"""Requests to a worker, and the futures of its answers."""

from dataclasses import replace
from typing import Any

import pytest

from auctune.domain import AuctuneError, InputError
from auctune.engine.edge.site_store import STORE_WORKER
from auctune.engine.messages.base import (
    Alive,
    ErrorRecord,
    Failed,
    Missing,
    Preparing,
    Started,
)
from auctune.engine.messages.elastic import ReadRows
from auctune.engine.messages.node import Measure, Measured, Measuring, Ping, Pong, TrainSlotRequest
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.local import start_worker
from auctune.engine.runtime.requests import RequestWorker, WorkerEndedError
from support.scripted_node import READY


class Handle:
    """A worker that a test speaks for."""

    pid = None
    is_gone = False

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.say: OnMessage = lambda _: None

    def start(self, on_message: OnMessage) -> "Handle":
        self.say = on_message
        return self

    def is_lost(self) -> bool:
        return False

    def send(self, message: object) -> None:
        self.sent.append(message)

    def exit_reason(self) -> str:
        return "was killed"

    def request_stop(self) -> None:
        """It never stops."""

    def stop(self, timeout: float = 30.0) -> None:
        """It never stops."""

    def kill(self) -> None:
        self.say(None)


def read_failure(message: Failed) -> AuctuneError:
    return message.error.to_error(WorkerEndedError)


def failed(place: str) -> Failed:
    return Failed(error=ErrorRecord(place, "is wrong", "a right one"))


ROWS = ReadRows(
    site="a", source="none", num_chunks=1, seed=0, method="supervised", place="rows", sha256=None
)


@pytest.fixture
def handle() -> Handle:
    return Handle()


@pytest.fixture
def worker(handle: Handle) -> RequestWorker:
    return RequestWorker(handle.start, read_failure)


def test_each_request_is_answered_by_one_message_in_their_order(
    handle: Handle, worker: RequestWorker
) -> None:
    requests = [Measure(), Ping(), TrainSlotRequest(0, (), id="0/alpha/1")]
    first, second, third = map(worker.request, requests)
    assert handle.sent == requests
    assert worker.is_starting
    handle.say(READY)
    assert worker.ready is READY
    handle.say(Measured(profile="{}"))
    handle.say(Alive())
    handle.say(failed("number"))
    assert first.result(0) == Measured(profile="{}")
    with pytest.raises(InputError, match="number: is wrong"):
        second.result(0)
    assert not third.done()
    assert not worker.has_ended


def test_what_is_progress_and_what_is_an_answer_follows_from_the_class(
    handle: Handle, worker: RequestWorker
) -> None:
    first, second = worker.request(Ping()), worker.request(Measure())
    assert handle.sent == [Ping(), Measure()]
    for progress in (Missing(what="no place"), Started(pid=1), Preparing(what="base", share=0.5)):
        handle.say(progress)
    handle.say(READY)
    assert worker.ready is READY
    for message in (Alive(), Pong(), Measuring(what="speed", share=0.5)):
        handle.say(message)
    assert first.result(0) == Pong()
    assert not second.done()
    handle.say(failed("device"))
    with pytest.raises(InputError, match="device: is wrong"):
        second.result(0)


def test_a_worker_that_ends_answers_all_with_its_end(handle: Handle, worker: RequestWorker) -> None:
    handle.say(READY)
    before = worker.request(Ping())
    handle.say(None)
    for one in (before, worker.request(Ping())):
        with pytest.raises(WorkerEndedError, match="a worker was killed"):
            one.result(0)
    assert worker.has_ended
    assert len(handle.sent) == 1


def test_a_worker_that_cannot_start_answers_all_with_why(
    handle: Handle, worker: RequestWorker
) -> None:
    before = worker.request(Ping())
    handle.say(failed("device"))
    handle.say(None)
    for one in (before, worker.request(Ping())):
        with pytest.raises(InputError, match="device: is wrong"):
            one.result(0)


def test_a_process_that_is_killed_answers_too() -> None:
    spec = replace(STORE_WORKER, fork=False)
    worker = RequestWorker(lambda on_message: start_worker(spec, on_message), read_failure)
    worker.kill()
    with pytest.raises(WorkerEndedError, match="killed by SIGKILL"):
        worker.request(ROWS).result(60.0)
