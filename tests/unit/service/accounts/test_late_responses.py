"""The rate of responses to those without a key."""

import pytest

from auctune.service.accounts.limits import LateResponses, client_network


def test_responses_beyond_the_rate_are_late() -> None:
    clock = [0.0]
    limit = LateResponses(per_second=2.0, burst=3, max_delay=1.0, now=lambda: clock[0])
    assert [limit.delay("a") for _ in range(6)] == [0.0, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert limit.delay("b") == 0.0
    clock[0] = 0.75
    assert [limit.delay("a") for _ in range(2)] == [0.75, 1.0]
    clock[0] = 10.0
    assert [limit.delay("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


@pytest.mark.parametrize(
    ("address", "neighbour"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        # The client of a Unix socket has none.
        ("", ""),
    ],
)
def test_what_one_client_has_counts_as_one_address(address: str, neighbour: str) -> None:
    assert client_network(address) == client_network(neighbour)
    assert client_network(address) != client_network("2001:db8:1:3::1")
