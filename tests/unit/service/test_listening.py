"""Hosts of IPv4 and IPv6."""

import socket

import pytest

from auctune.service.listening import join_address, listen
from support.network import has_ipv6


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize(("host", "reached_at"), [("::1", ["::1"]), ("::", ["::1", "127.0.0.1"])])
def test_a_host_of_ipv6_is_listened_at(host: str, reached_at: list[str]) -> None:
    with listen(host, 0) as listening:
        port = listening.getsockname()[1]
        for address in reached_at:
            socket.create_connection((address, port), timeout=10).close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", ""])
def test_a_host_of_ipv4_is_that_of_ipv4(host: str) -> None:
    with listen(host, 0) as listening:
        assert listening.family == socket.AF_INET
        socket.create_connection(("127.0.0.1", listening.getsockname()[1]), timeout=10).close()


def test_a_host_that_is_not_of_this_machine_is_an_error_of_the_system() -> None:
    for host in ("192.0.2.1", "2001:db8::1", "no such host"):
        with pytest.raises(OSError, match=r"assign|known|resolution|supported"):
            listen(host, 0)


def test_an_address_is_written_as_in_urls() -> None:
    assert join_address("::1", 80) == "[::1]:80"
    assert join_address("localhost", 80) == "localhost:80"
