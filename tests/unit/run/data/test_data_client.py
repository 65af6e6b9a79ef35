"""Requests to a data process that follows a script: whose fault an ending is, and what it costs."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.run.data import DataClient, DataError
from support import scripted_data
from support.market_runs import living, poll

WAIT_SECONDS = 120.0


@pytest.fixture
def client(tmp_path: Path) -> Iterator[DataClient]:
    client = DataClient(tmp_path, program=(scripted_data.__file__,))
    yield client
    client.close()


def test_a_crash_fails_the_request_that_caused_it_alone(client: DataClient) -> None:
    before, bad, after = (client.prepare(word) for word in ("good", "crash", "good"))
    assert before.result(WAIT_SECONDS) != after.result(WAIT_SECONDS)
    with pytest.raises(DataError, match="prepare: the data process exit code 5"):
        bad.result(WAIT_SECONDS)


def test_a_request_is_tried_twice(client: DataClient) -> None:
    first = client.prepare("good").result(WAIT_SECONDS)
    assert client.prepare("crash once").result(WAIT_SECONDS) not in (None, first)


def test_a_process_killed_while_it_waits_is_started_again(client: DataClient) -> None:
    pid = client.prepare("good").result(WAIT_SECONDS)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert poll(lambda: not living([pid]))
    assert client.prepare("good").result(WAIT_SECONDS) != pid


def test_a_request_that_takes_too_long_is_failed_and_its_process_killed(
    client: DataClient,
) -> None:
    pid = client.prepare("good").result(WAIT_SECONDS)
    assert pid is not None
    late, next_one = client.prepare("hang", seconds=0.3), client.prepare("good")
    with pytest.raises(DataError, match=r"took longer than 0\.3 s"):
        late.result(WAIT_SECONDS)
    assert next_one.result(WAIT_SECONDS) != pid
    assert not living([pid])


def test_an_error_comes_back_with_its_place(client: DataClient) -> None:
    with pytest.raises(InputError) as caught:
        client.prepare("refuse").result(WAIT_SECONDS)
    assert (caught.value.place, caught.value.found, caught.value.expected) == (
        "base", "this", "that"
    )  # fmt: skip


def test_what_is_cancelled_before_its_turn_is_not_done(client: DataClient) -> None:
    late, cancelled, last = (client.prepare(word) for word in ("hang", "crash", "good"))
    assert cancelled.cancel()
    client.close()
    for future in (late, last):
        with pytest.raises(DataError, match="closed"):
            future.result(WAIT_SECONDS)
    with pytest.raises(CancelledError):
        cancelled.result(WAIT_SECONDS)
