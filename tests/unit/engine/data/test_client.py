"""Requests to a data process that follows a script: whose fault an ending is, and what it costs."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.data import DataClient, DataError
from auctune.engine.data import client as data_client
from auctune.engine.data.client import MEDIUM_BYTES, REPAIR_FACTOR, SHORT_BYTES
from auctune.engine.data.process import Request, RequestQueue
from auctune.engine.messages.data import Prepare
from support.market_runs import living
from support.waits import WAIT_SECONDS, poll


@pytest.fixture
def client(tmp_path: Path) -> Iterator[DataClient]:
    client = DataClient(tmp_path, module="support.scripted_data")
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
    poll(lambda: not living([pid]))
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


def test_owners_take_turns_whatever_each_of_them_has_waiting(
    client: DataClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    order: list[str] = []
    futures = [client.prepare(f"wait {gate}", owner="alice")]
    for owner in (*["alice"] * 20, "bob", "bob", "carol"):
        futures.append(client.prepare("good", owner=owner))
        futures[-1].add_done_callback(partial(_note, order, owner))
    gate.touch()
    for future in futures:
        future.result(WAIT_SECONDS)
    assert set(order[:2]) == {"bob", "carol"}


def _note(order: list[str], owner: str, _: object) -> None:
    order.append(owner)


def test_owners_are_charged_what_their_requests_took_however_long_they_might_have() -> None:
    queue = RequestQueue()
    for owner, max_seconds in (*[("archives", 600.0)] * 6, *[("files", 60.0)] * 6):
        queue.add(Request(Prepare(base=""), owner, max_seconds, 1.0, None))
    order = []
    while (request := queue.take()) is not None:
        order.append(request.owner)
        # In two tries.
        for _ in range(2):
            queue.charge(request, 0.5 if request.owner == "archives" else 2.0)
        queue.end(request)
    assert order[:6] == ["archives", "files", *["archives"] * 4]


def test_a_request_says_what_it_took_of_the_process(client: DataClient, tmp_path: Path) -> None:
    path, gate = tmp_path / "file", tmp_path / "gate"
    path.write_bytes(b"r")
    first = client.prepare(f"wait {gate}")
    # One request for both.
    refused = [client.measure("refuse", path, "file", 64) for _ in range(2)]
    gate.touch()
    first.result(WAIT_SECONDS)
    took = {future.seconds for future in refused if future.exception(WAIT_SECONDS)}
    assert first.seconds > 0
    assert len(took) == 1
    assert took.pop() > 0
    cancelled = client.prepare("hang")
    client.close()
    assert cancelled.exception(WAIT_SECONDS) is not None
    assert cancelled.seconds == 0


@pytest.mark.parametrize("limit", [SHORT_BYTES, MEDIUM_BYTES])
def test_a_small_file_does_not_wait_for_a_larger_one(
    client: DataClient, tmp_path: Path, limit: int
) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(b"r" * (limit + 1))
    small.write_bytes(b"r" * limit)
    doubtful = tmp_path / "doubtful"
    doubtful.write_bytes(b"r" * (limit // REPAIR_FACTOR + 1))
    late = client.measure("hang", large, "file", 64, owner="alice")
    client.appraise("hang", doubtful, "file", 64, [], owner="carol")
    with pytest.raises(InputError, match=r"^base: this; expected that$"):
        client.measure("refuse", small, "file", 64, owner="bob").result(WAIT_SECONDS)
    assert not late.done()


def test_a_file_that_ends_its_process_twice_is_refused_with_the_reason_and_not_tried_again(
    client: DataClient, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"r")
    why = r"^training_file: could not be examined: the data process exit code 5; expected another"
    # The second one, asked for while the first is under way, shares its answer.
    for future in [client.measure("crash", path, "training_file", 64) for _ in range(2)]:
        with pytest.raises(InputError, match=why):
            future.result(WAIT_SECONDS)
    pid = client.prepare("good").result(WAIT_SECONDS)
    for max_length in (64, 128):
        with pytest.raises(InputError, match=why):
            client.measure("crash", path, "training_file", max_length).result(WAIT_SECONDS)
    assert client.prepare("good").result(WAIT_SECONDS) == pid


@pytest.mark.slow
def test_a_file_that_ends_its_process_does_so_twice_for_all_its_lengths_that_wait(
    client: DataClient, tmp_path: Path
) -> None:
    path, gate = tmp_path / "file", tmp_path / "gate"
    path.write_bytes(b"r")
    client.prepare(f"wait {gate}")
    late = [client.measure("crash", path, "training_file", length) for length in range(1, 20)]
    gate.touch()
    for future in late:
        with pytest.raises(InputError, match="could not be examined"):
            future.result(WAIT_SECONDS)
    assert (tmp_path / "tried").read_text() == "crash\n" * 2


def test_a_file_that_takes_longer_than_any_file_may_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_client, "MAX_FILE_SECONDS", 0.3)
    client = DataClient(tmp_path, module="support.scripted_data")
    path = tmp_path / "file"
    path.write_bytes(b"r")
    try:
        for max_length in (64, 128):
            with pytest.raises(InputError) as caught:
                client.measure("hang", path, "training_file", max_length).result(WAIT_SECONDS)
        assert str(caught.value) == (
            "training_file: takes more than 0.3 seconds to examine;"
            " expected less data in one file: split it"
        )
    finally:
        client.close()


def test_the_start_of_the_process_is_no_time_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_client, "MAX_FILE_SECONDS", 0.3)
    path, not_yet = tmp_path / "file", tmp_path / "not yet"
    path.write_bytes(b"r")
    not_yet.touch()
    client = DataClient(tmp_path, module="support.scripted_data")
    try:
        asked = client.measure("refuse", path, "training_file", 64)
        with pytest.raises(TimeoutError):
            asked.exception(1)
        not_yet.unlink()
        with pytest.raises(InputError, match="this; expected that"):
            asked.result(WAIT_SECONDS)
    finally:
        client.close()


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
