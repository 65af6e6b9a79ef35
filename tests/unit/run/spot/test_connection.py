"""A message is whole or it is not there."""

import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from auctune.run.spot.connection import Connection, ConnectionClosedError, open_pair


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = open_pair(0.2)
    other = Connection(theirs)
    yield ours, other
    ours.close()
    other.close()


def test_words_and_numbers_arrive_as_they_were(ends: tuple[Connection, Connection]) -> None:
    ours, other = ends
    numbers = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    sender = threading.Thread(target=ours.send, args=({"kind": "gradient", "loss": 0.1}, numbers))
    sender.start()
    message = other.receive()
    sender.join()
    assert message.header == {"kind": "gradient", "loss": 0.1}
    assert np.array_equal(message.array, numbers)
    message.array[0] = 1.0


def test_messages_without_numbers_keep_their_order(ends: tuple[Connection, Connection]) -> None:
    ours, other = ends
    for number in range(5):
        ours.send({"number": number})
    messages = [other.receive() for _ in range(5)]
    assert [message.header["number"] for message in messages] == [0, 1, 2, 3, 4]
    assert all(message.array.size == 0 for message in messages)


def test_nothing_remains_of_half_a_message() -> None:
    one, other = socket.socketpair()
    whole, link = Connection(one), Connection(other)
    whole.send({"kind": "first"})
    one.sendall(b"\x00\x00\x00\x10half")
    whole.close()
    assert link.receive().header == {"kind": "first"}
    with pytest.raises(ConnectionClosedError):
        link.receive()
    link.close()


def test_the_end_of_the_other_side_is_an_error_for_both(
    ends: tuple[Connection, Connection],
) -> None:
    ours, other = ends
    other.close()
    with pytest.raises(ConnectionClosedError):
        ours.receive()
    with pytest.raises(ConnectionClosedError):
        ours.send({"kind": "part"})
    ours.close()
    ours.close()


def test_a_receiver_that_takes_nothing_counts_as_gone(ends: tuple[Connection, Connection]) -> None:
    ours, _ = ends
    with pytest.raises(ConnectionClosedError):
        ours.send({"kind": "weights"}, np.zeros(10_000_000, dtype=np.float32))
