"""Requests for slots by way of a frame."""

from dataclasses import replace

from auctune.engine.messages.sites import SITES_MESSAGES, PrefetchSlot
from auctune.engine.runtime.channel import decode, encode
from support.edge_runs import make_request


def test_a_request_is_the_same_by_way_of_a_frame() -> None:
    requests = (make_request(), replace(make_request(), until=1234.5))
    sent = decode(
        encode(PrefetchSlot(requests=requests), SITES_MESSAGES.requests), SITES_MESSAGES.requests
    )
    assert tuple(sent.requests) == requests
