"""Workers that call: who says the token is let in, once, and whoever waits learns of it."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from auctune.run.instances.calling import TOKEN_BYTES, call
from auctune.run.spot.cluster.door import Door
from auctune.run.spot.cluster.late_link import LateLink
from auctune.run.spot.link import LinkClosedError, SocketLink


@pytest.fixture
def door() -> Iterator[Door]:
    opened = Door("127.0.0.1")
    yield opened
    opened.close()


def caller(door: Door, token: str) -> SocketLink:
    return SocketLink(call("127.0.0.1", door.port, token))


def test_who_says_its_token_is_spoken_with(door: Door) -> None:
    link = LateLink()
    theirs = caller(door, door.expect(link.begin))
    numbers = np.arange(5, dtype=np.float32)
    theirs.send({"kind": "ready"}, numbers)
    parcel = link.receive()
    assert parcel.words == {"kind": "ready"}
    assert np.array_equal(parcel.numbers, numbers)
    link.send({"kind": "part"})
    assert theirs.receive().words == {"kind": "part"}
    theirs.close()
    with pytest.raises(LinkClosedError):
        link.receive()
    assert link.has_begun
    assert link.is_closed
    link.close()


def test_an_end_that_is_noticed_by_sending_is_an_end(door: Door) -> None:
    link = LateLink()
    theirs = caller(door, door.expect(link.begin))
    theirs.send({"kind": "ready"})
    assert link.receive().words == {"kind": "ready"}
    theirs.close()

    def send_on() -> None:
        for _ in range(100):
            link.send({"kind": "weights"}, np.zeros(1_000_000, dtype=np.float32))

    with pytest.raises(LinkClosedError):
        send_on()
    assert link.is_closed
    link.close()


def test_who_says_another_one_is_shut_out(door: Door) -> None:
    link = LateLink()
    door.expect(link.begin)
    stranger = caller(door, "0" * TOKEN_BYTES)
    with pytest.raises(LinkClosedError):
        stranger.receive()
    stranger.close()
    assert not link.has_begun


def test_a_token_counts_once_and_not_after_it_was_forgotten(door: Door) -> None:
    link, forgotten = LateLink(), LateLink()
    token, other = door.expect(link.begin), door.expect(forgotten.begin)
    first = caller(door, token)
    first.send({"kind": "ready"})
    assert link.receive().words == {"kind": "ready"}
    door.forget(other)
    for late in (caller(door, token), caller(door, other)):
        with pytest.raises(LinkClosedError):
            late.receive()
        late.close()
    first.close()
    link.close()


def test_who_waits_for_a_link_learns_that_nobody_will_come() -> None:
    link, heard = LateLink(), threading.Event()

    def wait() -> None:
        with pytest.raises(LinkClosedError):
            link.receive()
        heard.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    link.close()
    waiting.join(30)
    assert heard.is_set()
    with pytest.raises(LinkClosedError):
        link.send({"kind": "part"})


def test_who_comes_too_late_is_let_go_of(door: Door) -> None:
    link = LateLink()
    token = door.expect(link.begin)
    link.close()
    late = caller(door, token)
    with pytest.raises(LinkClosedError):
        late.receive()
    late.close()
    assert not link.has_begun


def test_a_closed_door_lets_nobody_in(door: Door) -> None:
    token = door.expect(lambda link: link.close())
    door.close()
    with pytest.raises(OSError, match="refused"):
        call("127.0.0.1", door.port, token)
