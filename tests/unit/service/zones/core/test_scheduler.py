"""What the log has about nodes."""

import logging
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from auctune.engine.messages.base import Alive, Started
from auctune.engine.messages.node import Ended, Lost, NodeMessage, Recovered
from auctune.service.logging import MinimumLevel
from auctune.service.zones.core.scheduler import log_node_message


@pytest.fixture(autouse=True)
def all_levels() -> Iterator[None]:
    """Log informational events too, whatever the tests before have configured."""
    with MinimumLevel(logging.NOTSET):
        yield


def test_the_log_says_how_a_lost_node_ended_and_when_it_has_recovered() -> None:
    how = "was silent for 15 s"
    with capture_logs() as lines:
        messages: list[NodeMessage] = [
            Started(pid=1),
            Ended(how=how, exits=3, backoff=60.0),
            Lost(how=how, missing=False),
            Alive(),
            Recovered(),
        ]
        for message in messages:
            log_node_message("default", "alpha", message)
    of_node = {"zone": "default", "node": "alpha"}
    assert lines == [
        {
            "event": "a node's worker ended",
            "log_level": "warning",
            "how": how,
            "exits": 3,
            "backoff_seconds": 60.0,
            **of_node,
        },
        {"event": "a node is lost", "log_level": "warning", "how": how, **of_node},
        {"event": "a node has recovered", "log_level": "info", **of_node},
    ]
