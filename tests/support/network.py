"""What the network of this machine has."""

import socket


def has_ipv6() -> bool:
    """Return whether the loopback address of IPv6 can be listened at."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
