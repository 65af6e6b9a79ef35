"""Addresses that a service listens at, of IPv4 and IPv6."""

import socket


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at a name or an address of this machine.

    A name with addresses of both kinds is that of IPv4; `::` takes connections of both.

    Raises:
        OSError: if the host has no address here, or the port is in use.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server(
        address, family=family, reuse_port=False, backlog=2048, dualstack_ipv6=is_dual
    )


def join_address(host: str, port: int) -> str:
    """Return host and port as a URL has them: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
