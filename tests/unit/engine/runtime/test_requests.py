"""Requests to a worker, and the futures of its answers."""

from typing import Any

import pytest

from auctune.domain import InputError
from auctune.engine.messages.base import (
    Alive,
    ErrorRecord,
    Failed,
    Missing,
    Preparing,
    Started,
)
from auctune.engine.messages.node import Measure, Measuring, Ping, Pong
from auctune.engine.runtime.channel import Message, OnMessage, read_error
from auctune.engine.runtime.local import start_worker
from auctune.engine.runtime.requests import RequestWorker, WorkerEndedError
from auctune.engine.runtime.worker import WorkerSpec
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


def read_failure(message: Message) -> InputError | WorkerEndedError:
    error = read_error(message, WorkerEndedError)  # type: ignore[arg-type]
    assert isinstance(error, InputError | WorkerEndedError)
    return error


def failed(place: str) -> Message:
    return {"kind": "failed", "place": place, "found": "is wrong", "expected": "a right one"}


@pytest.fixture
def handle() -> Handle:
    return Handle()


@pytest.fixture
def worker(handle: Handle) -> RequestWorker:
    return RequestWorker(handle.start, read_failure)


def test_each_request_is_answered_by_one_message_in_their_order(
    handle: Handle, worker: RequestWorker
) -> None:
    first, second, third = (worker.request({"do": "add", "number": n}) for n in range(3))
    assert [one["number"] for one in handle.sent] == [0, 1, 2]
    assert worker.is_starting
    handle.say({"kind": "ready", "with": "base"})
    assert worker.ready == {"kind": "ready", "with": "base"}
    handle.say({"kind": "sum", "value": 7})
    handle.say({"kind": "alive"})
    handle.say(failed("number"))
    assert first.result(0)["value"] == 7
    with pytest.raises(InputError, match="number: is wrong"):
        second.result(0)
    assert not third.done()
    assert not worker.has_ended


def test_what_is_progress_and_what_is_an_answer_follows_from_the_class(handle: Handle) -> None:
    worker = RequestWorker(handle.start, lambda failed: failed.error.to_error(WorkerEndedError))
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
    handle.say(Failed(error=ErrorRecord("device", "is wrong", "a right one")))
    with pytest.raises(InputError, match="device: is wrong"):
        second.result(0)


def test_a_worker_that_ends_answers_all_with_its_end(handle: Handle, worker: RequestWorker) -> None:
    handle.say({"kind": "ready"})
    before = worker.request({"do": "add"})
    handle.say(None)
    for one in (before, worker.request({"do": "add"})):
        with pytest.raises(WorkerEndedError, match="a worker was killed"):
            one.result(0)
    assert worker.has_ended
    assert len(handle.sent) == 1


def test_a_worker_that_cannot_start_answers_all_with_why(
    handle: Handle, worker: RequestWorker
) -> None:
    before = worker.request({"do": "add"})
    handle.say(failed("device"))
    handle.say(None)
    for one in (before, worker.request({"do": "add"})):
        with pytest.raises(InputError, match="device: is wrong"):
            one.result(0)


def test_a_process_that_is_killed_answers_too() -> None:
    spec = WorkerSpec("auctune.engine.edge.site_store", {}, fork=False)
    worker = RequestWorker(lambda on_message: start_worker(spec, on_message), read_failure)
    worker.kill()
    with pytest.raises(WorkerEndedError, match="killed by SIGKILL"):
        worker.request({"do": "read"}).result(60.0)
