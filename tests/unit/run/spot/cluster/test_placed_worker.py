"""Whether an instance is gone with its worker: Ray's word is waited for."""

import threading

import pytest

from auctune.run.spot.cluster.late_link import LateLink
from auctune.run.spot.cluster.launcher import PlacedWorker
from auctune.run.spot.link import make_pair


def begun() -> LateLink:
    """A link whose other end has been there, and is closed."""
    link = LateLink()
    ours, theirs = make_pair(0.0)
    theirs.close()
    link.begin(ours)
    return link


@pytest.mark.parametrize("is_lost", [True, False])
def test_who_is_silent_is_gone_if_its_machine_is(is_lost: bool) -> None:
    link = begun()
    worker = PlacedWorker(link, 60.0, lambda: None)
    assert not worker.is_gone()
    link.close()
    found: list[bool] = []
    asking = threading.Thread(target=lambda: found.append(worker.is_gone()))
    asking.start()
    worker.end(is_lost=is_lost)
    asking.join(30)
    assert found == [is_lost]
    assert worker.is_gone() is is_lost


def test_who_never_came_is_gone_after_a_while_or_as_soon_as_that_is_said() -> None:
    assert not PlacedWorker(LateLink(), 60.0, lambda: None).is_gone()
    assert PlacedWorker(LateLink(), -1.0, lambda: None).is_gone()
    lost = PlacedWorker(LateLink(), 60.0, lambda: None)
    lost.end(is_lost=True)
    assert lost.is_gone()


def test_a_worker_that_is_killed_is_let_go_of_and_its_link_closed() -> None:
    told: list[str] = []
    worker = PlacedWorker(begun(), 60.0, lambda: told.append("let go"))
    worker.kill()
    assert told == ["let go"]
    assert worker.link.is_closed
