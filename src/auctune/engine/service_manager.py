"""Messages to the service manager that started this process: the protocol of sd_notify(3)."""

import os
import socket
from contextlib import suppress


def notify_manager(*assignments: str) -> None:
    """Send assignments such as `READY=1` to systemd, or whoever else listens at $NOTIFY_SOCKET.

    Without the variable, as on a terminal, this does nothing.
    """
    name = os.environ.get("NOTIFY_SOCKET")
    if not name:
        return
    # An abstract socket is written with an @ for its null byte.
    address = "\0" + name[1:] if name.startswith("@") else name
    # As the manual advises: a manager that does not listen is no reason to end the service.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.sendto("\n".join(assignments).encode(), address)
