"""How a worker on another machine calls its coordinator.

It says its token first, 64 letters that only its actor was told. Both ends are kept alive by the
kernel: a machine that is cut off is noticed within seconds.
"""

import socket

TOKEN_BYTES = 64
HELLO_SECONDS = 10.0
# A silent machine is asked every second after two, and gone after eight.
_IDLE, _EVERY, _TRIES, _SILENT_MS = 2, 1, 6, 8000


def keep_alive(stream: socket.socket) -> None:
    """Have the kernel notice when the other machine is gone; small messages go out at once."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, _IDLE),
        (socket.TCP_KEEPINTVL, _EVERY),
        (socket.TCP_KEEPCNT, _TRIES),
        (socket.TCP_USER_TIMEOUT, _SILENT_MS),
        (socket.TCP_NODELAY, 1),
    ):
        stream.setsockopt(socket.IPPROTO_TCP, option, value)


def call(host: str, port: int, token: str) -> socket.socket:
    """Call where one is expected.

    Raises:
        OSError: if nobody answers.
    """
    stream = socket.create_connection((host, port), HELLO_SECONDS)
    stream.settimeout(None)
    keep_alive(stream)
    stream.sendall(token.encode())
    return stream
