"""Where workers on other machines call: a port of the coordinator, and who is expected at it.

Who says a token that nobody was given is shut out.
"""

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from auctune.run.instances.calling import HELLO_SECONDS, TOKEN_BYTES, keep_alive
from auctune.run.spot.launcher import PATIENCE_SECONDS
from auctune.run.spot.link import SocketLink


class Door:
    """A listening port.

    Args:
        host: of this machine, as the cluster's machines reach it.

    Attributes:
        port: at which callers are let in.

    Raises:
        OSError: if the host is none of this machine's.
    """

    def __init__(self, host: str) -> None:
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._expected: dict[str, Callable[[SocketLink], object]] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def expect(self, enter: Callable[[SocketLink], object]) -> str:
        """Let one caller in; the token that it has to say.

        Args:
            enter: gets the link to it.
        """
        token = secrets.token_hex(TOKEN_BYTES // 2)
        with self._lock:
            self._expected[token] = enter
        return token

    def forget(self, token: str) -> None:
        """Whoever says this token is shut out from now on."""
        with self._lock:
            self._expected.pop(token, None)

    def close(self) -> None:
        """Let nobody in any more."""
        # A thread that waits in accept hears of this, and not of a descriptor that is closed.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                stream, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._greet, args=(stream,), daemon=True).start()

    def _greet(self, stream: socket.socket) -> None:
        try:
            stream.settimeout(HELLO_SECONDS)
            said = stream.recv(TOKEN_BYTES, socket.MSG_WAITALL).decode("ascii", "replace")
            stream.settimeout(None)
            keep_alive(stream)
        except OSError:
            stream.close()
            return
        with self._lock:
            enter = self._expected.pop(said, None)
        if enter is None:
            stream.close()
        else:
            enter(SocketLink(stream, PATIENCE_SECONDS))
